// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "catch.hpp"
#include "has.hpp"
#include "placement/report/report.hpp"
#include "placement/topology/error.hpp"
#include "text/printable.hpp"

using namespace muster;

TEST_CASE("Characters that a terminal would interpret become question marks, and all others stay") {
  for (const std::string plain : {"", "n0: 'a' = 1", "größer …", "核", "\U0001F600"})
    CHECK(printable(plain) == plain);
  CHECK(printable("\x1b[31mred\x07") == "?[31mred?");
  CHECK(printable("a\nb\rc\td\x7f") == "a?b?c?d?");
  CHECK(printable(std::string("a\0b", 3)) == "a?b");
  CHECK(printable("\xc2\x9b"
                  "31m") == "??31m");  // CSI as one character
  CHECK(printable("\x9b\xff") == "??");
  CHECK(printable("\u202e\u2066\u2028") == "?????????");
  // Invalid UTF-8: overlong, a surrogate, beyond Unicode, truncated.
  CHECK(printable("\xc0\x9b\xe0\x80\x9b") == "?????");
  CHECK(printable("\xed\xa0\x80") == "???");
  CHECK(printable("\xf4\x90\x80\x80") == "????");
  CHECK(printable("\xe2\x80") == "??");
}

TEST_CASE("No text of a report reaches the terminal as a control sequence or splits a line") {
  const std::string evil = "x\x1b[2J\n\x9b\xc2\x9b";
  placement::ReportRow row;
  row.gpus = row.nics = row.reasons = {evil};
  row.cpus = row.gpu_cpu = row.gpu_nic = evil;
  placement::NodeReport report;
  report.host = report.shown = report.shown_reason = evil;
  report.rows = {row};
  report.left_out = report.warnings = {evil};
  for (const std::string& text :
       {placement::report_table(report, true), placement::merge_reports({report}, 1, true)}) {
    const auto lines = std::count(text.begin(), text.end(), '\n');
    CHECK(std::count_if(text.begin(), text.end(),
                        [](char c) { return static_cast<unsigned char>(c) < ' '; }) == lines);
    CHECK_FALSE(has(text, "\x9b"));
    CHECK(has(text, "x?[2J????"));
  }
  CHECK(placement::Error("a\x1b"
                         "b")
            .what() == std::string("a?b"));
}
