// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "muster/parameter_server.hpp"

namespace muster::parameter_server {

/// Which ranks serve and work, and how tasks and elements are divided; the same on all ranks.
class Layout {
 public:
  /// @throws Error(ErrorCode::usage) for invalid options.
  Layout(std::size_t size, const ParameterServerOptions& options, int ranks);

  int servers() const { return options_.servers; }
  /// Rank of worker number 0.
  int first_worker() const { return options_.servers == ranks_ ? 0 : options_.servers; }
  std::vector<int> workers() const;
  std::uint64_t tasks_per_clock() const;
  bool is_synchronous() const { return options_.staleness == 0; }
  /// How many clocks are complete before a pull at `clock`.
  std::uint64_t clocks_before(std::uint64_t clock) const;
  bool is_bfloat16() const { return options_.wire_type == DataType::bfloat16; }
  std::size_t size() const { return size_; }
  Share slice(int server) const { return ParameterServer::slice_of(size_, options_, server); }
  const ParameterServerOptions& options() const { return options_; }

 private:
  std::size_t size_;
  ParameterServerOptions options_;
  int ranks_;
};

}  // namespace muster::parameter_server
