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
  std::string found;  ///< one line; for skipped ones the reason
  std::string fix;    ///< what to do, empty when there is nothing
};

const char* name_of(Verdict verdict);

/// Columns of equal width, the fix on a line of its own below; then a line that counts the verdicts.
std::string table_of(const std::vector<Row>& rows);

/// One JSON object, schema 1; docs/man/muster.1 describes it. `trace`: rank 0's lines about the join.
std::string json_of(const std::vector<Row>& rows, const std::vector<std::string>& trace);

/// For another rank, and back there.
std::vector<std::uint8_t> blob_of(const std::vector<Row>& rows);
/// @throws Error(ErrorCode::system) for what blob_of() did not write.
std::vector<Row> rows_from(const std::vector<std::uint8_t>& blob);

/// 1 when a row failed, else 0.
int exit_code_of(const std::vector<Row>& rows);

}  // namespace muster::cli::doctor
