// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "muster/timings.hpp"
#include "telemetry/event_log.hpp"

namespace muster::observe {

/// A span of the joining thread, also when an exception ends it: added to one of the job's timings, and
/// always noted for the timeline, since there are few of them and they begin before it is known whether
/// anybody wants a trace.
class Phase {
 public:
  Phase(const char* name, Timings::Milliseconds& into) : name_(name), into_(into), begin_(now()) {}
  ~Phase();
  Phase(const Phase&) = delete;
  Phase& operator=(const Phase&) = delete;

 private:
  const char* name_;
  Timings::Milliseconds& into_;
  std::int64_t begin_;
};

/// What the join took on this rank, and what the world communicator on GPUs did: a line each under
/// MUSTER_LOG=info.
void log_join_timings(int rank, const Timings& timings);
void tell_world(int rank, const Timings& timings);

}  // namespace muster::observe
