// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <regex>
#include <set>

#include "job.hpp"

namespace simulator {
namespace {

using namespace std::chrono_literals;

// From the moment at which a rank can know of a loss to the end of the last survivor: the messages, half a
// second for the launcher, abort_grace, and the lead of the reporter.
constexpr auto longest_end = 3s;
constexpr auto longest_heartbeat_timeout = 10s;
constexpr auto longest_call = 30s;
// An answer that takes longer counts as none when the ranks look for the one that prints.
constexpr auto longest_round_trip = 150ms;
// Faults that are closer together hit ranks before they print; faults at the same time are no surprise.
constexpr auto print_window = 500ms;
constexpr auto same_time = 50ms;

bool is_silent(FaultKind kind) {
  return kind == FaultKind::stopped || kind == FaultKind::host_down || kind == FaultKind::link_down;
}

bool is_of_program(FaultKind kind) {
  return kind == FaultKind::computes || kind == FaultKind::skips || kind == FaultKind::differs;
}

// The ranks that the process of a line's rank could be: all numbers after "rank" and "ranks".
std::set<int> ranks_in(const std::string& line) {
  std::set<int> ranks;
  static const std::regex names("ranks? ([0-9]+)((?:-[0-9]+)?(?:, ?[0-9]+(?:-[0-9]+)?)*)");
  for (std::sregex_iterator at(line.begin(), line.end(), names), end; at != end; ++at) {
    auto const list = (*at)[1].str() + (*at)[2].str();
    static const std::regex part("([0-9]+)(?:-([0-9]+))?");
    for (std::sregex_iterator one(list.begin(), list.end(), part); one != end; ++one) {
      int const first = std::stoi((*one)[1]);
      int const last = (*one)[2].matched ? std::stoi((*one)[2]) : first;
      for (int r = first; r <= last; ++r) ranks.insert(r);
    }
  }
  return ranks;
}

class Verdict {
 public:
  explicit Verdict(const JobResult& result) : result_(result) {
    for (const auto& fault : result.faults) culprits_.insert(fault.culprits.begin(), fault.culprits.end());
  }

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
  template <typename... Args>
  void add(fmt::format_string<Args...> format, Args&&... args) {
    violations_.push_back(fmt::format(format, std::forward<Args>(args)...));
  }
  bool is_culprit(std::size_t rank) const { return culprits_.contains(static_cast<int>(rank)); }
  bool has(FaultKind kind) const {
    return std::any_of(result_.faults.begin(), result_.faults.end(),
                       [kind](const Fault& fault) { return fault.kind == kind; });
  }
  // A rank that a link that is down cuts off from rank 0, or rank 0 itself.
  bool is_cut_off(std::size_t rank) const {
    return std::any_of(result_.faults.begin(), result_.faults.end(), [&](const Fault& fault) {
      return fault.kind == FaultKind::link_down &&
             std::count(fault.culprits.begin(), fault.culprits.end(), static_cast<int>(rank)) > 0;
    });
  }
  // A rank that a fault ends or stops: it neither prints nor chooses its exit code.
  bool is_ended_by_fault(std::size_t rank) const {
    return std::any_of(result_.faults.begin(), result_.faults.end(), [&](const Fault& fault) {
      return fault.kind != FaultKind::link_down && !is_of_program(fault.kind) &&
             fault.kind != FaultKind::throws &&
             std::count(fault.culprits.begin(), fault.culprits.end(), static_cast<int>(rank)) > 0;
    });
  }
  // A job that was at its last call when the fault came may have ended well on some ranks.
  bool may_have_ended_well() const {
    return result_.last_call > 0s &&
           std::all_of(result_.faults.begin(), result_.faults.end(), [this](const Fault& fault) {
             auto const noticed = fault.when + (is_silent(fault.kind) ? longest_heartbeat_timeout : 1s);
             return is_of_program(fault.kind) || noticed > result_.last_call;
           });
  }

  void check_healthy() {
    for (std::size_t r = 0; r < result_.ranks.size(); ++r) {
      const auto& rank = result_.ranks[r];
      if (!rank.ended) add("rank {} did not end", r);
      if (rank.exit_code != 0) add("rank {} ended with {} without a fault", r, rank.exit_code);
      if (!rank.lines.empty()) add("rank {} printed without a fault: {}", r, rank.lines.front());
    }
  }

  void check_ends() {
    Duration latest = 0s;
    for (const auto& fault : result_.faults) {
      auto noticed = fault.when;
      if (is_silent(fault.kind)) noticed += longest_heartbeat_timeout;
      if (is_of_program(fault.kind)) noticed += longest_call + 10s;  // rank 0's answer, and its grace
      latest = std::max(latest, noticed);
    }
    for (std::size_t r = 0; r < result_.ranks.size(); ++r) {
      const auto& rank = result_.ranks[r];
      if (is_ended_by_fault(r) || (rank.ended && rank.exit_code == 0)) continue;
      if (!rank.ended) {
        add("rank {} did not end", r);
      } else if (rank.when > latest + longest_end) {
        add("rank {} ended after {:.3f} s, and the last fault could be known after {:.3f} s", r,
            std::chrono::duration<double>(rank.when).count(), std::chrono::duration<double>(latest).count());
      }
    }
  }

  void check_exit_codes() {
    for (std::size_t r = 0; r < result_.ranks.size(); ++r) {
      const auto& rank = result_.ranks[r];
      if (!rank.ended || is_ended_by_fault(r)) continue;
      std::set<int> allowed{75};
      if (may_have_ended_well()) allowed.insert(0);
      if (has(FaultKind::throws) && is_culprit(r)) allowed.insert(1);
      if (has(FaultKind::computes)) allowed.insert(0);  // no other rank waits for it
      if (has(FaultKind::skips)) allowed.insert({0, 64});
      if (has(FaultKind::differs)) allowed.insert(64);
      if (has(FaultKind::differs) && result_.faults.size() == 1) allowed = {64};
      if (!allowed.contains(rank.exit_code)) add("rank {} ended with {}", r, rank.exit_code);
    }
  }

  void check_lines() {
    std::size_t lines = 0;       // of ranks that end by themselves
    std::size_t lost_lines = 0;  // of others: a rank may print, and be killed or cut off then
    std::size_t own_errors = 0;
    for (std::size_t r = 0; r < result_.ranks.size(); ++r) {
      for (const auto& line : result_.ranks[r].lines) {
        if (line.find("out of ideas") != std::string::npos) {
          ++own_errors;
          continue;
        }
        ++(is_cut_off(r) || is_ended_by_fault(r) ? lost_lines : lines);
        if (is_cut_off(r)) continue;  // for such a rank, all others are lost
        auto const named = ranks_in(line);
        if (std::none_of(named.begin(), named.end(), [this](int rank) { return culprits_.contains(rank); }))
          add("rank {} named no culprit: {}", r, line);
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
    if (may_have_ended_well()) return true;
    if (hits_reporter()) return true;
    bool survives = false;
    for (std::size_t r = 0; r < result_.ranks.size(); ++r)
      survives = survives || (!is_ended_by_fault(r) && !is_cut_off(r));
    if (!survives) return true;
    // A rank left out a call, or came late to one, for which no other rank waits.
    return (has(FaultKind::skips) || has(FaultKind::computes)) &&
           std::all_of(result_.ranks.begin(), result_.ranks.end(),
                       [](const RankEnd& rank) { return rank.exit_code == 0; });
  }

  // Another fault may hit the rank that should print, before it prints: rank 0, or the first rank of another
  // host.
  bool hits_reporter() const {
    if (result_.faults.size() < 2) return false;
    const auto& first = result_.faults.front();
    return std::any_of(result_.faults.begin() + 1, result_.faults.end(), [&](const Fault& fault) {
      if (!hits_reporter(fault) && !hits_reporter(first)) return false;
      auto const between = fault.when > first.when ? fault.when - first.when : first.when - fault.when;
      bool const one_is_silent = is_silent(fault.kind) != is_silent(first.kind);
      return fault.kind == FaultKind::stopped || first.kind == FaultKind::stopped || one_is_silent ||
             (between > same_time && between < print_window);
    });
  }
  bool hits_reporter(const Fault& fault) const {
    auto const& host_of = result_.host_of;
    auto const next =
        std::find_if(host_of.begin(), host_of.end(), [&](int host) { return host != host_of.front(); });
    int const second = next == host_of.end() ? 1 : static_cast<int>(next - host_of.begin());
    return std::any_of(fault.culprits.begin(), fault.culprits.end(),
                       [second](int rank) { return rank == 0 || rank == second; });
  }

  const JobResult& result_;
  std::set<int> culprits_;
  std::vector<std::string> violations_;
};

}  // namespace

std::vector<std::string> find_violations(const JobResult& result) { return Verdict(result).find(); }

std::string name_of(FaultKind kind) {
  static const char* const names[fault_kinds] = {"killed", "stopped", "exits",     "throws",   "computes",
                                                 "skips",  "differs", "host_down", "link_down"};
  return names[static_cast<int>(kind)];
}

std::string describe(const JobResult& result) {
  auto const seconds = [](Duration time) { return std::chrono::duration<double>(time).count(); };
  auto text = fmt::format("{} ranks on {} hosts, latency up to {:.1f} ms\n", result.ranks.size(),
                          result.hosts, seconds(result.slow_network) * 1e3);
  for (const auto& fault : result.faults)
    text += fmt::format("  {:8.4f} s  rank {} {}\n", seconds(fault.when), fmt::join(fault.culprits, ", "),
                        name_of(fault.kind));
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
    for (const auto& line : rank.lines) text += fmt::format("              rank {}: {}\n", r, line);
  }
  return text;
}

}  // namespace simulator
