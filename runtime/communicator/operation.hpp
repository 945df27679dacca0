// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "communicator/backend.hpp"
#include "telemetry/counters.hpp"
#include "telemetry/event_log.hpp"

namespace muster::observe {

/// One call of a communicator's operation: counted, and timed and recorded when telemetry is on.
class Operation {
 public:
  Operation(const detail::CommunicatorBackend& on, OperationKind kind, std::uint64_t bytes) noexcept
      : kind_(kind) {
    auto position = on.position();
    // Not every rank takes part in these operations, so they have no number. A grouped call has none until
    // its group is issued.
    if (kind == OperationKind::send || kind == OperationKind::recv || kind == OperationKind::synchronize ||
        kind == OperationKind::grouped || on.in_group())
      position.number = 0;
    counters().enter(kind, position, bytes);
    if (event_log().on()) {
      recorded_ = event_log().begin(Category::operation, to_string(kind), position.communicator,
                                    position.number, bytes);
    }
    if (counters().timed()) begin_ = now();
  }
  ~Operation() {
    counters().leave(kind_, begin_ == 0 ? 0 : now() - begin_);
    if (recorded_) event_log().end();
  }
  Operation(const Operation&) = delete;
  Operation& operator=(const Operation&) = delete;

 private:
  OperationKind kind_;
  bool recorded_ = false;
  std::int64_t begin_ = 0;
};

/// Runs the call as an Operation on the bytes of `in`.
inline void run_operation(detail::CommunicatorBackend& on, const detail::CollectiveCall& call,
                          Stream stream) {
  auto const bytes = call.in_count(static_cast<std::size_t>(on.size())) * size_of(call.type);
  Operation const operation(on, call.kind, bytes);
  on.run(call, stream);
}

}  // namespace muster::observe
