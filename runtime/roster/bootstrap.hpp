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

  /// "pmix", "slurm", "address", "alone" or "invitation".
  virtual const char* name() const noexcept = 0;
  virtual int rank() const noexcept = 0;
  virtual int size() const noexcept = 0;
  /// Index among the ranks of this host, according to the launcher, before the roster is known.
  virtual int local_rank() const noexcept = 0;

  /// Publishes this rank's record and returns the records of all ranks, by rank. Call it once.
  /// @throws Error: deadline (names the missing ranks), system.
  virtual std::vector<JoinRecord> exchange(const JoinRecord& mine, const Deadline& deadline) = 0;

  /// Opens the job's key in the record of rank 0, which exchange() leaves sealed: munged takes a millisecond,
  /// and not every rank needs the key. Does nothing when the key is there.
  /// @throws Error: environment (no MUNGE here, another user's key; one rank of a host reports it), system.
  virtual void open_key(JoinRecord& /*rank_0*/, const Deadline& /*deadline*/) {}

  /// Reports to the launcher that this process ends normally. Without this call the launcher takes its end
  /// for a failure and ends the whole job, as it should for a failing rank.
  virtual void finalize() noexcept = 0;
};

/// Tries, in this order: PMIx, a Slurm step's variables with TCP, torchrun's variables, a single rank. Below
/// torchrun the first two are skipped, because they describe the job that started torchrun. MUSTER_JOIN
/// selects one method and disables the rest.
/// @throws Error(ErrorCode::environment) when the launcher started several tasks that cannot find each other.
std::unique_ptr<Bootstrap> select_bootstrap(const Deadline& deadline);

std::unique_ptr<Bootstrap> make_singleton_bootstrap();

#ifdef MUSTER_HAVE_PMIX
/// Null when no PMIx server can be reached and the join may go on without PMIx.
/// @throws Error: environment, deadline
std::unique_ptr<Bootstrap> connect_pmix(const Deadline& deadline);
#endif

}  // namespace muster::bootstrap
