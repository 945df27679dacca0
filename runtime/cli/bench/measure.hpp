// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bench/bandwidth.hpp"
#include "bench/memory.hpp"
#include "muster/communicator.hpp"

namespace muster::cli::bench {

/// Parameters of a measurement.
struct Plan {
  Operation operation = Operation::all_reduce;
  DataType type = DataType::float32;
  int iterations = 20;
  int warmup = 5;
  bool check = false;
  bool gpu = false;
};

/// The measurement of one size on one rank.
struct Sample {
  std::size_t bytes = 0;     ///< S of algorithm_bandwidth(): the given size, rounded down to whole shares
  std::size_t elements = 0;  ///< elements in the operation's call on one rank
  double average = 0;        ///< seconds of one operation, back to back, as in nccl-tests
  Times single;              ///< times of operations with a wait after each
  std::size_t wrong = 0;     ///< wrong elements in this rank's result
};

std::optional<DataType> parse_type(std::string_view name);
std::vector<std::string> type_names();

/// Measures one operation; all calls are collective. Buffers of `most` bytes are reused for all sizes.
class Meter {
 public:
  /// @throws Error(ErrorCode::usage) for send_recv in a world of one.
  Meter(Communicator world, const Plan& plan, std::size_t most);

  /// Warms up, then times the operation twice: back to back with one wait at the end, and one by one. With
  /// Plan::check, runs it once more on known numbers and counts wrong elements.
  /// @throws Error
  Sample measure(std::size_t bytes);

 private:
  void run(std::size_t count);
  std::size_t count_for(std::size_t bytes) const;
  std::size_t wrong(std::size_t count);

  Communicator world_;
  Plan plan_;
  std::unique_ptr<Memory> in_;   // the input, or the buffer of an operation in place
  std::unique_ptr<Memory> out_;  // null for an operation in place
};

}  // namespace muster::cli::bench
