// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "communicator/backend.hpp"
#include "telemetry/event_log.hpp"

namespace muster::observe {

/// The reduction of one reducer bucket in the timeline. Its operations are counted and recorded separately.
/// On GPU memory the span is the time in which the host enqueues the reduction.
class BucketSpan {
 public:
  /// `on`: the reducer's communicator. `bytes`: size of the gradients as they are sent.
  BucketSpan(const detail::CommunicatorBackend& on, std::size_t bucket, std::uint64_t bytes) noexcept {
    if (!event_log().on()) return;
    recorded_ = event_log().begin(Category::bucket, "bucket", on.position().communicator, bucket, bytes);
  }
  ~BucketSpan() {
    if (recorded_) event_log().end();
  }
  BucketSpan(const BucketSpan&) = delete;
  BucketSpan& operator=(const BucketSpan&) = delete;

 private:
  bool recorded_ = false;
};

}  // namespace muster::observe
