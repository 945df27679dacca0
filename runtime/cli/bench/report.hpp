// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "bench/measure.hpp"

namespace muster::cli::bench {

/// The result of one size over all ranks: the mean of the ranks' average times, as nccl-tests reports it, and
/// for single operations the times of the slowest rank.
struct Row {
  std::size_t bytes = 0;
  std::size_t elements = 0;
  Times times;
  std::size_t wrong = 0;
  double algorithm = 0;  ///< GB/s
  double bus = 0;        ///< GB/s
};

/// `samples`: the samples of one size, by rank; at least one.
Row make_row(const std::vector<Sample>& samples, Operation operation);

/// What was measured, and where.
struct RunInfo {
  Plan plan;
  int ranks = 1;
  int hosts = 1;
  std::string bootstrap;  ///< "pmix", …
  std::string backend;    ///< "nccl", …
  std::string version;    ///< version of Muster
  std::string nccl;       ///< version of NCCL, empty without NCCL
};

std::string table_head(const RunInfo& info);
std::string table_row(const Row& row, bool checked);
std::string table_foot(const std::vector<Row>& rows, bool checked);
/// One JSON object, schema 1; docs/man/muster.1 describes it.
std::string json_report(const RunInfo& info, const std::vector<Row>& rows);
/// Bus and algorithm bandwidth over the size, both logarithmic, as a whole SVG document.
std::string svg_report(const RunInfo& info, const std::vector<Row>& rows);

}  // namespace muster::cli::bench
