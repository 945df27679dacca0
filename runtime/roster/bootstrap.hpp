// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <vector>

#include "deadline.hpp"
#include "roster/join_record.hpp"

namespace muster::bootstrap {

/// How this process found its job: its rank, the job's size, and one exchange of records. Not thread-safe.
class Bootstrap {
 public:
  virtual ~Bootstrap() = default;

  /// "pmix", "slurm", "address" or "alone".
  virtual const char* name() const noexcept = 0;
  virtual int rank() const noexcept = 0;
  virtual int size() const noexcept = 0;
  /// Index among the ranks of this host as the launcher says, before the roster is known.
  virtual int local_rank() const noexcept = 0;

  /// Puts up this rank's record and returns everybody's, by rank. Once per membership.
  /// @throws Error: deadline (names the missing ranks), system.
  virtual std::vector<JoinRecord> exchange(const JoinRecord& mine, const Deadline& deadline) = 0;

  /// Tells the launcher that this process leaves in order. Without it the launcher takes the process's end
  /// for a failure and ends the whole job, which is what a failing rank wants.
  virtual void finish() noexcept = 0;
};

/// Tries, in this order: PMIx, the variables of a Slurm step with TCP, those that torchrun sets, alone. Below
/// torchrun the first two belong to what started torchrun and are passed over. MUSTER_JOIN names one of them
/// and leaves the others out.
/// @throws Error(ErrorCode::environment) when the launcher started several tasks that cannot find each other.
std::unique_ptr<Bootstrap> select_bootstrap(const Deadline& deadline);

std::unique_ptr<Bootstrap> alone();

#ifdef MUSTER_HAVE_PMIX
/// Null when no PMIx server can be reached and this process may be alone.
/// @throws Error: environment, deadline
std::unique_ptr<Bootstrap> connect_pmix(const Deadline& deadline);
#endif

}  // namespace muster::bootstrap
