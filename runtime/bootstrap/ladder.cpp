// SPDX-License-Identifier: Apache-2.0
#include "bootstrap/membership.hpp"
#include "bootstrap/slurm.hpp"
#include "bootstrap/this_process.hpp"
#include "log.hpp"

namespace muster::bootstrap {

std::unique_ptr<Membership> find_membership(const Deadline& deadline) {
#ifdef MUSTER_HAVE_PMIX
  if (auto membership = connect_pmix(deadline)) return membership;
#else
  (void)deadline;
  log::debug("join: PMIx: not in this build");
#endif
  if (auto const refusal = refusal_to_run_alone(variable)) throw *refusal;
  log::debug("join: alone");
  return alone();
}

}  // namespace muster::bootstrap
