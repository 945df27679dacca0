// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <utility>
#include <vector>

#include "muster/collective_call.hpp"

namespace muster::detail {

/// The calls of a CallGroup, recorded until they are issued together.
class GroupedCalls {
 public:
  struct Call {
    CollectiveCall call;
    Stream stream;
    std::vector<std::size_t> counts, recv_counts;  // to which those of `call` refer
  };
  struct Calls {
    std::vector<Call> collectives;
    std::vector<Call> messages;
  };

  bool open() const noexcept { return open_; }
  void begin() { open_ = true; }
  void discard() noexcept { take(); }
  void add(const CollectiveCall& call, Stream stream) {
    auto& calls = call.is_message() ? calls_.messages : calls_.collectives;
    auto& recorded = calls.emplace_back(Call{call,
                                             stream,
                                             {call.counts.begin(), call.counts.end()},
                                             {call.recv_counts.begin(), call.recv_counts.end()}});
    recorded.call.counts = recorded.counts;
    recorded.call.recv_counts = recorded.recv_counts;
  }
  /// Ends the group and returns its calls.
  Calls take() noexcept {
    open_ = false;
    return std::exchange(calls_, {});
  }

 private:
  bool open_ = false;
  Calls calls_;
};

}  // namespace muster::detail
