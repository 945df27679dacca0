// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "c/call.hpp"
#include "telemetry/event_log.hpp"

using muster::c::call;
using muster::c::require_not_null;

int muster_span_begin(const char* name) {
  using muster::observe::Category;
  return name != nullptr && muster::observe::event_log().begin(Category::user, name) ? 1 : 0;
}

void muster_span_end(int span) {
  if (span == 1) muster::observe::event_log().end();
}

int muster_metrics_text(const muster_job* job, int rank, int64_t wait_ms, char* text, size_t capacity,
                        size_t* length) {
  return call([&] {
    auto const& its = require_not_null(job, "muster_metrics_text", "job").job;
    auto const whole = muster::prometheus_text({its.metrics_of(rank, std::chrono::milliseconds(wait_ms))});
    if (length != nullptr) *length = whole.size();
    if (capacity == 0) return;
    auto const length_written = std::min(whole.size(), capacity - 1);
    std::memcpy(&require_not_null(text, "muster_metrics_text", "place for the text"), whole.data(),
                length_written);
    text[length_written] = '\0';
  });
}
