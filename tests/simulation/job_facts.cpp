// SPDX-License-Identifier: Apache-2.0
#include "job_facts.hpp"

#include <algorithm>
#include <regex>

namespace simulator {

using namespace std::chrono_literals;

namespace {

// Faults that are closer together hit ranks before they print; faults at the same time are no surprise.
constexpr auto print_window = 500ms;
constexpr auto same_time = 50ms;

// All numbers after "rank" and "ranks".
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

// After a loss the ranks have other numbers, and the lost process is named by its pid.
std::set<int> processes_in(const std::string& line) {
  std::set<int> ranks;
  static const std::regex pid("pid ([0-9]+)");
  for (std::sregex_iterator at(line.begin(), line.end(), pid), end; at != end; ++at)
    ranks.insert(std::stoi((*at)[1]) - first_pid);
  return ranks.empty() ? ranks_in(line) : ranks;
}

}  // namespace

bool is_silent(FaultKind kind) {
  return kind == FaultKind::stopped || kind == FaultKind::host_down || kind == FaultKind::link_down;
}

bool is_of_program(FaultKind kind) {
  return kind == FaultKind::computes || kind == FaultKind::skips || kind == FaultKind::differs;
}

bool is_own_error(const std::string& line) { return line.find("out of ideas") != std::string::npos; }

JobFacts::JobFacts(const JobResult& result) : result_(result) {
  for (const auto& fault : result.faults) culprits_.insert(fault.culprits.begin(), fault.culprits.end());
}

bool JobFacts::has(FaultKind kind) const {
  return std::any_of(result_.faults.begin(), result_.faults.end(),
                     [kind](const Fault& fault) { return fault.kind == kind; });
}

bool JobFacts::is_hit(std::size_t rank, FaultKind kind) const {
  return std::any_of(result_.faults.begin(), result_.faults.end(), [&](const Fault& fault) {
    return fault.kind == kind &&
           std::count(fault.culprits.begin(), fault.culprits.end(), static_cast<int>(rank)) > 0;
  });
}

bool JobFacts::is_cut_off(std::size_t rank) const { return is_hit(rank, FaultKind::link_down); }

bool JobFacts::is_ended_by_fault(std::size_t rank) const {
  return is_hit(rank, FaultKind::killed) || is_hit(rank, FaultKind::stopped) ||
         is_hit(rank, FaultKind::exits) || is_hit(rank, FaultKind::host_down) ||
         is_hit(rank, FaultKind::absent);
}

bool JobFacts::may_have_ended_well() const {
  return result_.last_call > 0s &&
         std::all_of(result_.faults.begin(), result_.faults.end(), [this](const Fault& fault) {
           auto const noticed = fault.when + (is_silent(fault.kind) ? longest_heartbeat_timeout : 1s);
           return is_of_program(fault.kind) || noticed > result_.last_call;
         });
}

Duration JobFacts::notice(const Fault& fault) {
  if (is_silent(fault.kind)) return fault.when + longest_heartbeat_timeout;
  if (is_of_program(fault.kind)) return fault.when + longest_call + 10s;  // rank 0's answer, and its grace
  return fault.when;
}

Duration JobFacts::last_notice() const {
  Duration latest = 0s;
  for (const auto& fault : result_.faults) latest = std::max(latest, notice(fault));
  return latest;
}

bool JobFacts::launcher_was_faster() const {
  return result_.launcher_kills &&
         std::all_of(result_.faults.begin(), result_.faults.end(), [this](const Fault& fault) {
           const auto& end = result_.ranks[static_cast<std::size_t>(fault.rank)].when;
           bool const came = is_silent(fault.kind) || is_of_program(fault.kind) ||
                             (end >= fault.when && end < fault.when + same_time &&
                              !is_hit(static_cast<std::size_t>(fault.rank), FaultKind::host_down) &&
                              !is_cut_off(static_cast<std::size_t>(fault.rank)));
           return !came || *result_.launcher_kills < notice(fault) + longest_print;
         });
}

bool JobFacts::names_culprit(const std::string& line) const {
  auto const named = processes_in(line);
  return std::any_of(named.begin(), named.end(), [this](int rank) { return culprits_.contains(rank); });
}

bool JobFacts::hits_reporter() const {
  if (result_.faults.size() < 2) return false;
  const auto& first = result_.faults.front();
  return std::any_of(result_.faults.begin() + 1, result_.faults.end(), [&](const Fault& fault) {
    if (!is_reporter_hit(fault) && !is_reporter_hit(first)) return false;
    auto const between = fault.when > first.when ? fault.when - first.when : first.when - fault.when;
    bool const one_is_silent = is_silent(fault.kind) != is_silent(first.kind);
    return fault.kind == FaultKind::stopped || first.kind == FaultKind::stopped || one_is_silent ||
           (between > same_time && between < print_window);
  });
}

// Rank 0, or the first rank of another host.
bool JobFacts::is_reporter_hit(const Fault& fault) const {
  auto const& host_of = result_.host_of;
  auto const next =
      std::find_if(host_of.begin(), host_of.end(), [&](int host) { return host != host_of.front(); });
  int const second = next == host_of.end() ? 1 : static_cast<int>(next - host_of.begin());
  return std::any_of(fault.culprits.begin(), fault.culprits.end(),
                     [second](int rank) { return rank == 0 || rank == second; });
}

}  // namespace simulator
