// SPDX-License-Identifier: Apache-2.0
#include "survivor_violations.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "growth_violations.hpp"
#include "verdict.hpp"

namespace simulator {
namespace {

class SurvivorVerdict : private Verdict {
 public:
  explicit SurvivorVerdict(const JobResult& result) : Verdict(result) {}

  std::vector<std::string> find() {
    check_ends();
    if (!has_turned_away() && !has_split(result_)) {
      check_members();
      check_exit_codes();
      check_lines();
    }
    return std::move(violations_);
  }

 private:
  // A second loss came while the ranks connected to the smaller job.
  bool has_turned_away() const {
    return !result_.grows && std::any_of(result_.ranks.begin(), result_.ranks.end(),
                                         [](const RankEnd& rank) { return rank.turned_away; });
  }
  // A new process of a job that grows. It ends if it is not in the grown job.
  bool is_new(std::size_t rank) const { return static_cast<int>(rank) >= result_.first_ranks; }
  // A rank that no fault hits.
  bool is_survivor(std::size_t rank) const { return !facts_.is_culprit(rank); }

  void check_ends() {
    for (std::size_t r = 0; r < result_.ranks.size(); ++r)
      if (!result_.ranks[r].ended && !facts_.is_ended_by_fault(r)) add("rank {} did not end", r);
  }

  // All ranks that end well were in the same job at last.
  void check_members() {
    if (facts_.may_have_ended_well()) return;
    std::set<std::vector<int>> jobs;
    for (std::size_t r = 0; r < result_.ranks.size(); ++r)
      if (result_.ranks[r].exit_code == 0 && !facts_.is_ended_by_fault(r))
        jobs.insert(result_.ranks[r].members);
    if (jobs.size() < 2) return;
    for (const auto& members : jobs)
      add("{} jobs went on, this one with rank {}", jobs.size(), fmt::join(members, ", "));
  }

  bool has_line(const std::string& start) const {
    return std::any_of(result_.ranks.begin(), result_.ranks.end(), [&](const RankEnd& rank) {
      return std::any_of(rank.lines.begin(), rank.lines.end(),
                         [&](const std::string& line) { return line.starts_with(start); });
    });
  }

  bool has_silence() const {
    return std::any_of(result_.faults.begin(), result_.faults.end(),
                       [](const Fault& fault) { return is_silent(fault.kind); });
  }

  // The job ends if half of the ranks or more may live on the other side of a silence. A second fault may hit
  // the recovery: a rank that is silent then, or that is lost between the agreement and its connection.
  bool excuses_end() const {
    std::size_t silent = 0;
    std::size_t silent_first = 0;  // ranks of the start
    for (const auto& fault : result_.faults) {
      if (!is_silent(fault.kind)) continue;
      silent += fault.culprits.size();
      for (int const rank : fault.culprits) silent_first += rank < result_.first_ranks ? 1 : 0;
    }
    bool const has_quorum =
        2 * silent < result_.ranks.size() && 2 * silent_first < static_cast<std::size_t>(result_.first_ranks);
    bool const hits_recovery =
        result_.faults.size() > 1 && (has_line("join: ") || (has_line("shrink: ") && silent > 0));
    return facts_.may_have_ended_well() || !has_quorum || hits_recovery;
  }

  void check_exit_codes() {
    for (std::size_t r = 0; r < result_.ranks.size(); ++r) {
      const auto& rank = result_.ranks[r];
      if (!rank.ended || facts_.is_ended_by_fault(r)) continue;
      std::set<int> allowed{0};
      if (!is_survivor(r) || is_new(r) || excuses_end()) allowed.insert(75);
      if (!is_survivor(r) && facts_.has(FaultKind::throws)) allowed.insert(1);
      if (!allowed.contains(rank.exit_code)) add("rank {} ended with {}", r, rank.exit_code);
    }
  }

  void check_lines() {
    std::size_t losses = 0;
    std::size_t too_few = 0;  // lines of ranks that do not go on
    bool has_any = false;
    for (std::size_t r = 0; r < result_.ranks.size(); ++r) {
      for (const auto& line : result_.ranks[r].lines) {
        has_any = true;
        if (facts_.is_cut_off(r) || facts_.is_ended_by_fault(r) || is_own_error(line)) continue;
        if (is_new(r) && excuses_line_of_new(r, line)) continue;
        // A new process prints where its own step does: its line is besides that of the job.
        if (!is_new(r)) ++(line.starts_with("shrink: ") ? too_few : losses);
        bool const is_of_recovery = result_.faults.size() > 1 && line.starts_with("join: ");
        if (!is_of_recovery && !names_follower(line) && !facts_.names_culprit(line))
          add("rank {} named no culprit: {}", r, line);
      }
    }
    auto allowed = result_.faults.size();
    if (2 * result_.slow_network > longest_round_trip) allowed += static_cast<std::size_t>(result_.hosts);
    if (losses > allowed) add("{} lines", losses);
    // A second fault may hit the recovery: each rank that then waits alone prints.
    bool const may_wait_alone = result_.faults.size() > 1 && has_silence();
    if (too_few > 1 && !may_wait_alone) add("{} lines of ranks that are too few", too_few);
    if (!has_any && !excuses_silence()) add("no line");
  }

  // A new process that ended because one of its host did, through which it connects.
  bool names_follower(const std::string& line) const {
    auto const of_host = [&](const Fault& fault) {
      auto const rank = static_cast<std::size_t>(fault.rank);
      return is_new(rank) && line.find(fmt::format("(host h{})", result_.host_of[rank])) != std::string::npos;
    };
    return line.starts_with("grow: ") && std::any_of(result_.faults.begin(), result_.faults.end(), of_host);
  }

  // It does not go on. It may know of its own way to the job only, most of all after two faults.
  bool excuses_line_of_new(std::size_t rank, const std::string& line) const {
    return line.starts_with("join: ") || result_.ranks[rank].turned_away || result_.faults.size() > 1;
  }

  bool excuses_silence() const {
    bool has_survivor = false;
    for (std::size_t r = 0; r < result_.ranks.size(); ++r) has_survivor = has_survivor || is_survivor(r);
    return !has_survivor || facts_.may_have_ended_well() || facts_.hits_reporter();
  }
};

}  // namespace

std::vector<std::string> find_survivor_violations(const JobResult& result) {
  return SurvivorVerdict(result).find();
}

}  // namespace simulator
