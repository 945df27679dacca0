// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <set>

#include "deadline.hpp"
#include "growth_violations.hpp"
#include "save_violations.hpp"
#include "stall_violations.hpp"
#include "survivor_violations.hpp"
#include "verdict.hpp"

namespace simulator {
namespace {

using namespace std::chrono_literals;

class EndVerdict : private Verdict {
 public:
  explicit EndVerdict(const JobResult& result) : Verdict(result) {}

  std::vector<std::string> find() {
    if (result_.faults.empty()) {
      check_healthy();
    } else {
      check_ends();
      check_exit_codes();
      check_lines();
    }
    return std::move(violations_);
  }

 private:
  void check_healthy() {
    for (std::size_t r = 0; r < result_.ranks.size(); ++r) {
      const auto& rank = result_.ranks[r];
      if (!rank.ended) add("rank {} did not end", r);
      if (rank.exit_code != 0) add("rank {} ended with {} without a fault", r, rank.exit_code);
      if (!rank.lines.empty()) add("rank {} printed without a fault: {}", r, rank.lines.front());
    }
  }

  void check_ends() {
    auto const latest = facts_.last_notice();
    for (std::size_t r = 0; r < result_.ranks.size(); ++r) {
      const auto& rank = result_.ranks[r];
      if (facts_.is_ended_by_fault(r) || (rank.ended && rank.exit_code == 0)) continue;
      if (!rank.ended) {
        add("rank {} did not end", r);
      } else if (rank.when > latest + longest_end + saving_time(rank)) {
        add("rank {} ended after {:.3f} s, and the last fault could be known after {:.3f} s", r,
            std::chrono::duration<double>(rank.when).count(), std::chrono::duration<double>(latest).count());
      }
    }
  }

  // A rank that does not call Muster has the time that it may take to save.
  Duration saving_time(const RankEnd& rank) const {
    if (rank.ended_by_library && result_.saves) return result_.save_deadline;
    return result_.longest_save + (result_.calls_again ? longest_second_call : 0s);
  }

  void check_exit_codes() {
    for (std::size_t r = 0; r < result_.ranks.size(); ++r) {
      const auto& rank = result_.ranks[r];
      if (!rank.ended || facts_.is_ended_by_fault(r)) continue;
      std::set<int> allowed{75};
      if (result_.launcher_kills && rank.when >= *result_.launcher_kills) allowed = {128 + 9};
      if (facts_.may_have_ended_well()) allowed.insert(0);
      if (facts_.has(FaultKind::throws) && facts_.is_culprit(r)) allowed.insert(1);
      if (facts_.has(FaultKind::computes)) allowed.insert(0);  // no other rank waits for it
      if (facts_.has(FaultKind::skips)) allowed.insert({0, 64});
      if (facts_.has(FaultKind::leaves)) allowed.insert(64);
      if (facts_.has(FaultKind::differs)) allowed.insert(64);
      bool const one_fault = result_.faults.size() == 1;
      if (one_fault && (facts_.has(FaultKind::differs) || facts_.has(FaultKind::leaves))) allowed.erase(75);
      if (!allowed.contains(rank.exit_code)) add("rank {} ended with {}", r, rank.exit_code);
    }
  }

  void check_lines() {
    std::size_t lines = 0;       // of ranks that end by themselves
    std::size_t lost_lines = 0;  // of others: a rank may print, and be killed or cut off then
    std::size_t own_errors = 0;
    for (std::size_t r = 0; r < result_.ranks.size(); ++r) {
      for (const auto& line : result_.ranks[r].lines) {
        if (is_own_error(line)) {
          ++own_errors;
          continue;
        }
        ++(facts_.is_cut_off(r) || facts_.is_ended_by_fault(r) ? lost_lines : lines);
        if (facts_.is_cut_off(r)) continue;  // for such a rank, all others are lost
        if (!facts_.names_culprit(line)) add("rank {} named no culprit: {}", r, line);
      }
    }
    if (own_errors > result_.faults.size()) add("{} own errors", own_errors);
    // One fault makes one line. Of several, each is a loss of its own, if the job has not ended before it.
    auto allowed = result_.faults.size();
    if (2 * result_.slow_network > longest_round_trip) allowed += static_cast<std::size_t>(result_.hosts);
    if (lines > allowed) add("{} lines", lines);
    // Each side of a link that is down has a line.
    if (lost_lines > allowed) add("{} lines of ranks that are lost or cut off", lost_lines);
    if (lines + lost_lines + own_errors == 0 && !excuses_silence()) add("no line");
  }

  bool excuses_silence() const {
    if (facts_.may_have_ended_well() || facts_.launcher_was_faster()) return true;
    if (facts_.hits_reporter()) return true;
    bool survives = false;
    for (std::size_t r = 0; r < result_.ranks.size(); ++r)
      survives = survives || (!facts_.is_ended_by_fault(r) && !facts_.is_cut_off(r));
    if (!survives) return true;
    // A rank left out a call, or came late to one, for which no other rank waits.
    return (facts_.has(FaultKind::skips) || facts_.has(FaultKind::computes)) &&
           std::all_of(result_.ranks.begin(), result_.ranks.end(),
                       [](const RankEnd& rank) { return rank.exit_code == 0; });
  }
};

}  // namespace

std::vector<std::string> find_violations(const JobResult& result) {
  bool const goes_on = result.after_loss == AfterLoss::shrink && !result.faults.empty();
  auto violations = goes_on ? find_survivor_violations(result) : EndVerdict(result).find();
  auto const append = [&](std::vector<std::string> others) {
    std::move(others.begin(), others.end(), std::back_inserter(violations));
  };
  if (result.grows) append(find_growth_violations(result));
  append(find_save_violations(result));
  append(find_stall_violations(result));
  return violations;
}

std::string name_of(FaultKind kind) {
  static const char* const names[fault_kinds] = {"killed",    "stopped", "exits",   "throws",
                                                 "computes",  "skips",   "differs", "host_down",
                                                 "link_down", "absent",  "leaves"};
  return names[static_cast<int>(kind)];
}

std::string name_of(AfterLoss after_loss) {
  static const char* const names[after_loss_kinds] = {"end", "shrink", "launcher"};
  return names[static_cast<int>(after_loss)];
}

std::string describe(const JobResult& result) {
  auto const seconds = [](Duration time) { return std::chrono::duration<double>(time).count(); };
  auto text = fmt::format("{} ranks on {} hosts, latency up to {:.1f} ms, stall warning after {}\n",
                          result.ranks.size(), result.hosts, seconds(result.slow_network) * 1e3,
                          muster::format_duration(result.stall_warning));
  for (const auto& fault : result.faults)
    text += fmt::format("  {:8.4f} s  rank {} {}\n", seconds(fault.when), fmt::join(fault.culprits, ", "),
                        name_of(fault.kind));
  if (result.grows)
    text += fmt::format("  {:8.4f} s  the last rank calls grow(); rank {} and higher ones are new\n",
                        seconds(result.grow_began), result.first_ranks);
  if (result.last_call > 0s)
    text += fmt::format("  {:8.4f} s  a rank begins the last call\n", seconds(result.last_call));
  for (std::size_t r = 0; r < result.ranks.size(); ++r) {
    const auto& rank = result.ranks[r];
    if (rank.ended) {
      text += fmt::format("  {:8.4f} s  rank {} (h{}) ended with {}\n", seconds(rank.when), r,
                          result.host_of[r], rank.exit_code);
    } else {
      text += fmt::format("              rank {} (h{}) still runs\n", r, result.host_of[r]);
    }
    if (rank.grow_ended)
      text +=
          fmt::format("              in grow() until {:.4f} s{}, {} ranks at last\n",
                      seconds(*rank.grow_ended), rank.has_grown ? ", has grown" : "", rank.members.size());
    for (const auto& line : rank.lines) text += fmt::format("              rank {}: {}\n", r, line);
    for (const auto& warning : rank.warnings)
      text += fmt::format("  {:8.4f} s  rank {}: warning: {}\n", seconds(warning.when), r, warning.text);
    for (const auto& stay : rank.stays)
      for (const auto& save : stay.saves)
        text += fmt::format("  {:8.4f} s  rank {} saves: {}\n", seconds(save.when), r, save.what);
  }
  return text;
}

}  // namespace simulator
