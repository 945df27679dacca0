// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <set>
#include <string>

#include "job.hpp"

namespace simulator {

// The longest that a seed chooses.
inline constexpr Duration longest_heartbeat_timeout = std::chrono::seconds(10);
inline constexpr Duration longest_call = std::chrono::seconds(30);
// From the moment at which a rank can know of a loss to the end of the last survivor: the messages, half a
// second for the launcher, abort_grace, and the lead of the reporter.
inline constexpr Duration longest_end = std::chrono::seconds(3);
// An answer that takes longer counts as none when the ranks look for the one that prints.
inline constexpr Duration longest_round_trip = std::chrono::milliseconds(150);

// From the moment at which a rank can know of a loss to the line of the rank that prints: the launcher may
// end the job then.
inline constexpr Duration longest_print = std::chrono::milliseconds(900);

// Of a call after the one that threw the loss: it throws late, too.
inline constexpr Duration longest_second_call = std::chrono::milliseconds(600);

/// What the rules of docs/failures.md ask about a job.
class JobFacts {
 public:
  explicit JobFacts(const JobResult& result);

  bool is_culprit(std::size_t rank) const { return culprits_.contains(static_cast<int>(rank)); }
  bool has(FaultKind kind) const;
  /// A rank that a link that is down cuts off from rank 0, or rank 0 itself.
  bool is_cut_off(std::size_t rank) const;
  /// A rank that a fault ends or stops: it neither prints nor chooses its exit code.
  bool is_ended_by_fault(std::size_t rank) const;
  /// A job that was at its last call when the fault came may have ended well on some ranks.
  bool may_have_ended_well() const;
  /// The launcher killed the ranks before they had to know of a fault and to print it.
  bool launcher_was_faster() const;
  /// When the last fault can be known on all ranks.
  Duration last_notice() const;
  /// A second fault may hit the rank that should print, before it prints.
  bool hits_reporter() const;
  /// The line says of a culprit that it is lost, missing, late or makes another call.
  bool names_culprit(const std::string& line) const;

 private:
  static Duration notice(const Fault& fault);
  // A lost rank whose host leader is silent is noticed with it.
  Duration notice_by_leader(const Fault& fault) const;
  bool is_reporter_hit(const Fault& fault) const;
  bool is_hit(std::size_t rank, FaultKind kind) const;

  const JobResult& result_;
  std::set<int> culprits_;
};

/// The line of a program's own error, not of Muster's.
bool is_own_error(const std::string& line);

}  // namespace simulator
