// SPDX-License-Identifier: Apache-2.0
#include "doctor/check_table.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "cbor.hpp"
#include "muster/error.hpp"

namespace muster::cli::doctor {
namespace {

auto count_verdict(const std::vector<Row>& rows, Verdict verdict) {
  return std::count_if(rows.begin(), rows.end(), [&](const Row& row) { return row.verdict == verdict; });
}

}  // namespace

const char* to_string(Verdict verdict) {
  switch (verdict) {
    case Verdict::pass:
      return "pass";
    case Verdict::warn:
      return "warn";
    case Verdict::fail:
      return "fail";
    case Verdict::skipped:
      return "skipped";
  }
  return "?";
}

std::string format_table(const std::vector<Row>& rows) {
  std::size_t width = 0;
  for (const auto& row : rows) width = std::max(width, row.subject.size());
  std::string text;
  for (const auto& row : rows) {
    text += fmt::format("{:<7}  {:<{}}  {}\n", to_string(row.verdict), row.subject, width, row.found);
    if (!row.fix.empty()) text += fmt::format("{:<7}  {:<{}}  -> {}\n", "", "", width, row.fix);
  }
  return text + fmt::format("{} passed, {} warned, {} failed, {} skipped\n",
                            count_verdict(rows, Verdict::pass), count_verdict(rows, Verdict::warn),
                            count_verdict(rows, Verdict::fail), count_verdict(rows, Verdict::skipped));
}

std::string format_json(const std::vector<Row>& rows, const std::vector<std::string>& trace) {
  using nlohmann::ordered_json;
  ordered_json checks = ordered_json::array();
  for (const auto& row : rows)
    checks.push_back({{"verdict", to_string(row.verdict)},
                      {"subject", row.subject},
                      {"found", row.found},
                      {"fix", row.fix}});
  ordered_json const report{
      {"schema", 1}, {"failed", exit_code(rows) != 0}, {"checks", checks}, {"trace", trace}};
  return report.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

std::vector<std::uint8_t> encode_rows(const std::vector<Row>& rows) {
  auto list = nlohmann::json::array();
  for (const auto& row : rows)
    list.push_back({static_cast<int>(row.verdict), row.subject, row.found, row.fix});
  return write_cbor(list);
}

std::vector<Row> decode_rows(const std::vector<std::uint8_t>& blob) {
  auto const list = read_cbor(blob, "the doctor's rows");
  std::vector<Row> rows;
  try {
    for (const auto& one : list)
      rows.push_back({static_cast<Verdict>(one.at(0).get<int>()), one.at(1).get<std::string>(),
                      one.at(2).get<std::string>(), one.at(3).get<std::string>()});
  } catch (const nlohmann::json::exception& error) {
    throw Error(ErrorCode::system, std::string("the doctor's rows cannot be read: ") + error.what());
  }
  return rows;
}

int exit_code(const std::vector<Row>& rows) { return count_verdict(rows, Verdict::fail) > 0 ? 1 : 0; }

}  // namespace muster::cli::doctor
