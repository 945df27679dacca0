// SPDX-License-Identifier: Apache-2.0
#include "growth_violations.hpp"

#include <algorithm>

#include "growth.hpp"
#include "verdict.hpp"

namespace simulator {
namespace {

using namespace std::chrono_literals;

class GrowthVerdict : private Verdict {
 public:
  explicit GrowthVerdict(const JobResult& result) : Verdict(result) {}

  std::vector<std::string> find() {
    if (result_.faults.empty()) check_growth();
    check_time();
    return std::move(violations_);
  }

 private:
  void check_growth() {
    for (std::size_t r = 0; r < result_.ranks.size(); ++r)
      if (!result_.ranks[r].has_grown) add("rank {} is not in the grown job", r);
  }

  // A new process that has not connected, or cannot, is not missed before the deadline.
  bool may_take_the_deadline() const {
    return std::any_of(result_.faults.begin(), result_.faults.end(), [this](const Fault& fault) {
      bool const hits_new = fault.culprits.back() >= result_.first_ranks;
      if (fault.kind == FaultKind::link_down) return hits_new || fault.rank == 0;
      return hits_new && (fault.kind != FaultKind::killed || fault.moment == GrowMoment::begins);
    });
  }

  void check_time() {
    // A rank may be in an attempt to connect when it can know of the fault.
    auto const latest = std::max(facts_.last_notice(), result_.grow_began) + longest_attempt + longest_end +
                        (may_take_the_deadline() ? Duration(grow_deadline) : 0s);
    for (std::size_t r = 0; r < static_cast<std::size_t>(result_.first_ranks); ++r) {
      const auto& ended = result_.ranks[r].grow_ended;
      if (facts_.is_ended_by_fault(r) || !ended || *ended <= latest) continue;
      add("rank {} was in grow() until {:.3f} s, and could have known after {:.3f} s", r,
          std::chrono::duration<double>(*ended).count(), std::chrono::duration<double>(latest).count());
    }
  }

  static constexpr Duration longest_attempt = 2s;
};

}  // namespace

// The lost process is rank 0, or the first of a host with other ranks.
bool has_split(const JobResult& result) {
  JobFacts const facts(result);
  bool grown = false;
  bool not_grown = false;
  for (int r = 0; r < result.first_ranks; ++r) {
    const auto& rank = result.ranks[static_cast<std::size_t>(r)];
    if (!rank.grow_ended || facts.is_culprit(static_cast<std::size_t>(r))) continue;
    (rank.has_grown ? grown : not_grown) = true;
  }
  auto const cuts_off = [&](const Fault& fault) {
    const auto& hosts = result.host_of;
    auto const host = hosts[static_cast<std::size_t>(fault.rank)];
    return fault.rank == 0 || (std::find(hosts.begin(), hosts.end(), host) - hosts.begin() == fault.rank);
  };
  return grown && not_grown && std::any_of(result.faults.begin(), result.faults.end(), cuts_off);
}

std::vector<std::string> find_growth_violations(const JobResult& result) {
  return GrowthVerdict(result).find();
}

}  // namespace simulator
