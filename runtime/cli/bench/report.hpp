// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "bench/measure.hpp"

namespace muster::cli::bench {

/// One size over all ranks: the mean of the ranks' average times, as nccl-tests reports it, and of the times
/// of single operations the slowest rank's.
struct Row {
  std::size_t bytes = 0;
  std::size_t elements = 0;
  Times times;
  std::size_t wrong = 0;
  double algorithm = 0;  ///< GB/s
  double bus = 0;        ///< GB/s
};

/// `samples`: of one size, by rank; at least one.
Row row_of(const std::vector<Sample>& samples, Operation operation);

/// What was run where.
struct Setting {
  Plan plan;
  int ranks = 1;
  int hosts = 1;
  std::string bootstrap;  ///< "pmix", …
  std::string backend;    ///< "nccl", …
  std::string version;    ///< Muster's
  std::string nccl;       ///< NCCL's, empty without
};

std::string table_head(const Setting& setting);
std::string table_row(const Row& row, bool checked);
std::string table_foot(const std::vector<Row>& rows, bool checked);
/// One JSON object, schema 1; docs/man/muster.1 describes it.
std::string json_report(const Setting& setting, const std::vector<Row>& rows);
/// Bus and algorithm bandwidth over the size, both logarithmic. A whole SVG document.
std::string svg_report(const Setting& setting, const std::vector<Row>& rows);

}  // namespace muster::cli::bench
