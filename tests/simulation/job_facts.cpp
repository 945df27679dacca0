// SPDX-License-Identifier: Apache-2.0
#include "job_facts.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <regex>

namespace simulator {

using namespace std::chrono_literals;

namespace {

// Faults that are closer together hit ranks before they print; faults at the same time are no surprise.
constexpr auto print_window = 500ms;
constexpr auto same_time = 50ms;

std::set<int> numbers_after(const char* name, const std::string& text) {
  std::set<int> numbers;
  std::regex const pattern(std::string(name) + " ([0-9]+)");
  for (std::sregex_iterator at(text.begin(), text.end(), pattern), end; at != end; ++at)
    numbers.insert(std::stoi((*at)[1]));
  return numbers;
}

// The ranks of which the line says that they are lost, missing, late, or make another call: not those that
// print, wait, or are in a call.
std::set<int> blamed_ranks(const std::string& line) {
  static const std::string list = "((?:(?:, )?rank [0-9]+(?: \\(host h[0-9]+\\))?)+)";
  static const std::regex other_call(list + fmt::format(" called all_reduce of {} ", wrong_count));
  static const std::regex blamed("(?:^|: | for |; only |; not entered by |; no answer from )" + list);
  static const std::regex absent(
      "ranks?((?:,? [0-9]+)+)(?: and [0-9]+ more)? (?:do(?:es)? not answer|(?:is|are) in no call)");
  std::smatch found;
  if (line.find(" called all_reduce of ") != std::string::npos)
    return std::regex_search(line, found, other_call) ? numbers_after("rank", found[1]) : std::set<int>{};
  std::set<int> ranks;
  auto const add = [&](const std::regex& pattern, const char* before_number) {
    for (std::sregex_iterator at(line.begin(), line.end(), pattern), end; at != end; ++at)
      ranks.merge(numbers_after(before_number, (*at)[1]));
  };
  add(blamed, "rank");
  add(absent, ",?");
  return ranks;
}

// After a loss the ranks have other numbers. A line names the lost process alone by its pid.
std::set<int> blamed_processes(const std::string& line) {
  std::set<int> ranks;
  for (int const pid : numbers_after("pid", line)) ranks.insert(pid - first_pid);
  return ranks.empty() ? blamed_ranks(line) : ranks;
}

}  // namespace

bool is_silent(FaultKind kind) {
  return kind == FaultKind::stopped || kind == FaultKind::host_down || kind == FaultKind::link_down;
}

bool is_of_program(FaultKind kind) {
  return kind == FaultKind::computes || kind == FaultKind::skips || kind == FaultKind::differs ||
         kind == FaultKind::leaves;
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

Duration JobFacts::notice_by_leader(const Fault& fault) const {
  auto const host_of = [this](int rank) { return result_.host_of[static_cast<std::size_t>(rank)]; };
  int leader = 0;
  while (host_of(leader) != host_of(fault.rank)) ++leader;
  auto noticed = notice(fault);
  for (const auto& other : result_.faults)
    if (is_silent(other.kind) && std::count(other.culprits.begin(), other.culprits.end(), leader) > 0)
      noticed = std::max(noticed, notice(other));
  return noticed;
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
           return !came || *result_.launcher_kills < notice_by_leader(fault) + longest_print;
         });
}

bool JobFacts::names_culprit(const std::string& line) const {
  auto const named = blamed_processes(line);
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
