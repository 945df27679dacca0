// SPDX-License-Identifier: Apache-2.0
#include "stall_violations.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "stall_warning.hpp"
#include "verdict.hpp"

namespace simulator {
namespace {

using namespace std::chrono_literals;

// From a program's loop to the line: its polls, and threads that run late.
constexpr Duration usual_delay = 250ms;
// A query of the ranks waits so long for the answers.
constexpr Duration reply_timeout = 1s;
// From the first exit to the launcher's kill, at most.
constexpr Duration longest_launcher_delay = 3s;

class StallVerdict : private Verdict {
 public:
  explicit StallVerdict(const JobResult& result) : Verdict(result) {
    delay_ = usual_delay + 8 * result.slow_network;
    has_silence_ = std::any_of(result.faults.begin(), result.faults.end(),
                               [](const Fault& fault) { return is_silent(fault.kind); });
    if (has_silence_) delay_ += reply_timeout;
  }

  std::vector<std::string> find() {
    for (std::size_t r = 0; r < result_.ranks.size(); ++r) {
      const auto& warnings = result_.ranks[r].warnings;
      for (std::size_t i = 0; i < warnings.size(); ++i) {
        if (result_.stall_warning == 0ms) add("rank {} warned although it was off: {}", r, warnings[i].text);
        check_warning(static_cast<int>(r), warnings[i], i > 0 ? &warnings[i - 1] : nullptr);
      }
    }
    if (result_.stall_warning > 0ms) check_missed();
    return std::move(violations_);
  }

 private:
  const RankEnd& rank(int process) const { return result_.ranks[static_cast<std::size_t>(process)]; }

  void check_warning(int process, const Warning& printed, const Warning* before) {
    auto const warning = parse_stall_warning(printed.text);
    if (!warning) return add("rank {} warned: {}", process, printed.text);
    auto const wrong = [&](const std::string& what) {
      add("{}: after {:.4f} s rank {} warned: {}", what, std::chrono::duration<double>(printed.when).count(),
          process, printed.text);
    };
    auto const doublings = std::log2(static_cast<double>(warning->waited.count()) /
                                     static_cast<double>(result_.stall_warning.count()));
    if (doublings < 0 || doublings != std::floor(doublings)) wrong("not after a doubling");
    // Of a growth only these are known: its calls are of two jobs at once.
    if (result_.grows && (warning->call == "grow" || warning->call == "join")) return;
    const auto& session = session_at(process, printed.when);
    if (session.members.front() != process) return wrong("not rank 0");
    auto const found = session.calls.find(warning->call);
    if (found == session.calls.end()) return wrong("no such call");
    check_truth(*warning, printed.when, session, found->second, wrong);
    if (before != nullptr) check_repetition(*warning, printed.when, *before, wrong);
  }

  const SessionRecord& session_at(int process, Duration when) const {
    const auto& stays = rank(process).stays;
    auto at = stays.end();
    while (at != stays.begin() && (at == stays.end() || at->begin > when)) --at;
    return result_.sessions[at->session];
  }

  // Rank 0 does not know yet that it has ended or stopped.
  bool is_silenced(int process) const {
    return std::any_of(result_.faults.begin(), result_.faults.end(), [process](const Fault& fault) {
      return is_silent(fault.kind) && std::count(fault.culprits.begin(), fault.culprits.end(), process) > 0;
    });
  }

  // A process that ended or stopped in the call waits until then.
  Duration end_of(int process, const Wait& wait) const {
    const auto& its = rank(process);
    auto end = wait.end.value_or(Duration::max());
    if (its.stopped && *its.stopped >= wait.begin) end = std::min(end, *its.stopped);
    if (its.ended) end = std::min(end, std::max(its.when, wait.begin));
    return end;
  }

  static bool has_entered(const CallRecord& call, int process, Duration when) {
    auto const wait = call.waits.find(process);
    return wait != call.waits.end() && wait->second.begin <= when;
  }

  // It describes the ranks as they were at some time in the last delay_.
  template <typename Wrong>
  void check_truth(const StallWarning& warning, Duration when, const SessionRecord& session,
                   const CallRecord& call, const Wrong& wrong) {
    auto const earliest = when - delay_;
    auto const waits = [&](int process) {
      auto const wait = call.waits.find(process);
      return wait != call.waits.end() && wait->second.begin <= when - warning.waited &&
             (end_of(process, wait->second) >= earliest || is_silenced(process));
    };
    auto const process_of = [&](int number) { return session.members[static_cast<std::size_t>(number)]; };
    if (warning.waiting ? !waits(process_of(*warning.waiting))
                        : std::none_of(call.members.begin(), call.members.end(), waits))
      wrong("nobody waits for so long");
    if (warning.waiting) check_longest(process_of(*warning.waiting), when, call, wrong);
    std::set<int> named;
    std::size_t count = warning.silent.count();
    for (const auto& ranks : warning.not_entered) {
      count += ranks.count();
      for (int const number : ranks.ranks) {
        auto const process = process_of(number);
        if (has_entered(call, process, earliest) &&
            reaches_rank_0(session, process, call.waits.at(process).begin))
          wrong(fmt::format("rank {} has entered", number));
        if (warning.waiting) check_last_call(process_of(number), ranks.did, earliest, session, wrong);
      }
    }
    auto const missing = std::count_if(call.members.begin(), call.members.end(),
                                       [&](int process) { return !has_entered(call, process, when); });
    if (count < static_cast<std::size_t>(missing)) wrong(fmt::format("{} ranks are missing", missing));
    if (!warning.waiting && warning.members != call.members.size())
      wrong(fmt::format("{} ranks make the call", call.members.size()));
  }

  // No other rank that still waits has entered long before.
  template <typename Wrong>
  void check_longest(int waiting, Duration when, const CallRecord& call, const Wrong& wrong) {
    auto const own = call.waits.find(waiting);
    if (own == call.waits.end()) return;
    for (const auto& [process, wait] : call.waits)
      if (wait.begin + delay_ < own->second.begin && end_of(process, wait) > when)
        return wrong(fmt::format("pid {} waits longer", first_pid + process));
  }

  // Of a rank behind in the world, whose calls are all of one kind.
  template <typename Wrong>
  void check_last_call(int process, const std::string& did, Duration earliest, const SessionRecord& session,
                       const Wrong& wrong) {
    bool const has_called = std::any_of(session.calls.begin(), session.calls.end(), [&](const auto& call) {
      return call.first.starts_with("all_reduce") && has_entered(call.second, process, earliest);
    });
    bool const says_none = did.starts_with("which called nothing there yet");
    bool const says_call = did.starts_with("whose last call there was all_reduce") ||
                           did.starts_with("which is still in all_reduce");
    if (has_called ? !says_call : !says_none && !says_call)
      wrong(fmt::format("pid {} made another call last", first_pid + process));
  }

  // A stall has one line for each doubling. A wait that began before the last line is of the same stall.
  template <typename Wrong>
  void check_repetition(const StallWarning& warning, Duration when, const Warning& before,
                        const Wrong& wrong) {
    auto const last = parse_stall_warning(before.text);
    if (!last || (result_.grows && (last->call == "grow" || last->call == "join"))) return;
    if (warning.waited <= last->waited && when - warning.waited < before.when) wrong("the same stall again");
  }

  // When the first rank of a call waits so long, rank 0 has warned of a wait at least as long since it waits.
  void check_missed() {
    for (const auto& session : result_.sessions) {
      for (const auto& [name, call] : session.calls) {
        auto const& first = *std::min_element(
            call.waits.begin(), call.waits.end(),
            [](const auto& one, const auto& other) { return one.second.begin < other.second.begin; });
        check_missed(session, name, call, first.first, first.second);
      }
    }
  }

  void check_missed(const SessionRecord& session, const std::string& name, const CallRecord& call,
                    int process, const Wait& wait) {
    auto const until = warned_until(session, call, process, wait);
    const auto& warnings = rank(session.members.front()).warnings;
    for (Duration waited = result_.stall_warning; waited < call.limit; waited *= 2) {
      // Rank 0 may wait for the answers to one query, and then for those to its own.
      auto const latest = wait.begin + waited + delay_ + (has_silence_ ? reply_timeout : 0s);
      if (latest > until) return;
      bool const has_warned = std::any_of(warnings.begin(), warnings.end(), [&](const Warning& printed) {
        auto const warning = parse_stall_warning(printed.text);
        return warning && printed.when > wait.begin && printed.when <= latest && warning->waited >= waited;
      });
      if (!has_warned)
        add("no warning until {:.4f} s, and rank {} waits in {} since {:.4f} s",
            std::chrono::duration<double>(latest).count(), process, name,
            std::chrono::duration<double>(wait.begin).count());
    }
  }

  // Until then rank 0 hears of the wait, and the job has not failed.
  Duration warned_until(const SessionRecord& session, const CallRecord& call, int process,
                        const Wait& wait) const {
    auto until = end_of(process, wait);
    if (wait.failed || !wait.end) {
      auto const from_failure =
          longest_end + result_.longest_save + longest_second_call + longest_launcher_delay;
      until = std::min(until - from_failure, wait.begin + call.limit);
    }
    for (const auto& fault : result_.faults) {
      if (is_of_program(fault.kind) || fault.kind == FaultKind::absent) continue;
      if (is_silent(fault.kind) && !hits_way(fault, session, process)) continue;
      until = std::min(until, fault.when);
    }
    return until;
  }

  // A call that began then: its messages have arrived before a fault on their way.
  bool reaches_rank_0(const SessionRecord& session, int process, Duration begin) const {
    return std::none_of(result_.faults.begin(), result_.faults.end(), [&](const Fault& fault) {
      return is_silent(fault.kind) && hits_way(fault, session, process) && fault.when < begin + delay_;
    });
  }

  // The rank, the leader of its host, or rank 0.
  bool hits_way(const Fault& fault, const SessionRecord& session, int process) const {
    auto const host_of = [this](int one) { return result_.host_of[static_cast<std::size_t>(one)]; };
    auto const leader = std::find_if(session.members.begin(), session.members.end(),
                                     [&](int one) { return host_of(one) == host_of(process); });
    return std::any_of(fault.culprits.begin(), fault.culprits.end(), [&](int culprit) {
      return culprit == process || culprit == *leader || culprit == session.members.front();
    });
  }

  Duration delay_;  // from what the ranks do to a line about it
  bool has_silence_;
};

}  // namespace

std::vector<std::string> find_stall_violations(const JobResult& result) {
  return StallVerdict(result).find();
}

}  // namespace simulator
