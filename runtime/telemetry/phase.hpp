// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "muster/timings.hpp"
#include "telemetry/event_log.hpp"

namespace muster::observe {

/// A span of the joining thread, also when an exception ends it. It is added to one of the job's timings, and
/// always recorded for the timeline: there are few of them, and they begin before it is known whether a trace
/// is wanted.
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

/// Log the time of the join on this rank, and of its world communicator on GPUs, one line each under
/// MUSTER_LOG=info.
void log_join_timings(int rank, const Timings& timings);
void log_world_timings(int rank, const Timings& timings);

}  // namespace muster::observe
