// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace muster::cli::doctor {

enum class Verdict { pass, warn, fail, skipped };

/// One row of the doctor's table.
struct Row {
  Verdict verdict = Verdict::pass;
  std::string subject;
  std::string found;  ///< one line; for a skipped check the reason
  std::string fix;    ///< what to do, empty when there is nothing
};

const char* to_string(Verdict verdict);

/// Columns of equal width, each fix on a line of its own below its row; then a line with the number of rows
/// of each verdict.
std::string format_table(const std::vector<Row>& rows);

/// One JSON object, schema 1; docs/man/muster.1 describes it. `trace`: rank 0's lines about the join.
std::string format_json(const std::vector<Row>& rows, const std::vector<std::string>& trace);

/// Encodes rows for another rank.
std::vector<std::uint8_t> encode_rows(const std::vector<Row>& rows);
/// Decodes rows of encode_rows().
/// @throws Error(ErrorCode::system) for anything else.
std::vector<Row> decode_rows(const std::vector<std::uint8_t>& blob);

/// 1 when a row failed, else 0.
int exit_code(const std::vector<Row>& rows);

}  // namespace muster::cli::doctor
