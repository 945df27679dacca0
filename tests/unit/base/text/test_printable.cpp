// SPDX-License-Identifier: Apache-2.0
#include <string>

#include "catch.hpp"
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
