// SPDX-License-Identifier: Apache-2.0
#include "strategies/pipeline/schedule_replay.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <tuple>
#include <utility>

namespace muster::pipeline {
namespace {

bool is_backward(OperationKind kind) {
  return kind == OperationKind::backward || kind == OperationKind::backward_input;
}

/// Where all ranks are in their lists.
class Run {
 public:
  Run(const std::vector<OperationList>& lists, const ReplaySettings& settings)
      : lists_(lists), settings_(settings), clocks_(lists.size()), done_(lists.size()) {
    for (std::size_t rank = 0; rank < lists.size(); ++rank)
      for (const Operation& operation : lists[rank]) {
        rank_of_[operation.stage] = rank;
        last_stage_ = std::max(last_stage_, operation.stage);
      }
  }

  /// Lets all ranks go on as far as they can; `halted` stops before its operation number `before`.
  void advance(std::optional<std::size_t> halted = {}, std::size_t before = 0) {
    for (bool moved = true; moved;) {
      moved = false;
      for (std::size_t rank = 0; rank < lists_.size(); ++rank) {
        while (done_[rank].size() < lists_[rank].size() &&
               !(halted == rank && done_[rank].size() >= before) && try_next(rank))
          moved = true;
      }
    }
  }

  const std::vector<std::vector<TimedOperation>>& done() const { return done_; }

  /// Messages that were sent to `rank` and not received, of the fuller direction.
  int queued(std::size_t rank) const {
    int forward = 0, backward = 0;
    for (const auto& [key, timed] : found_) {
      const auto& [kind, stage, micro_batch] = key;
      const int to = kind == 'F' ? stage + 1 : stage - 1;
      if (kind == 'W' || to < 0 || to > last_stage_ || rank_of_.at(to) != rank || rank_of_.at(stage) == rank)
        continue;
      if (!found_.contains({kind, to, micro_batch})) ++(kind == 'F' ? forward : backward);
    }
    return std::max(forward, backward);
  }

 private:
  using Key = std::tuple<char, int, int>;  ///< kind ('B' for either form), stage, micro-batch

  static Key key_of(const Operation& operation) {
    const char kind = is_backward(operation.kind) ? 'B' : static_cast<char>(operation.kind);
    return {kind, operation.stage, operation.micro_batch};
  }

  /// When `key` ended, with the latency when it sends its result to another rank. Nothing: not yet.
  std::optional<double> end_of(const Key& key, std::size_t receiver) const {
    const auto found = found_.find(key);
    if (found == found_.end()) return std::nullopt;
    return found->second.end + (rank_of_.at(std::get<1>(key)) == receiver ? 0 : settings_.latency);
  }

  /// When the message that this operation sends finds room. Nothing: not yet.
  std::optional<double> has_room(const Operation& operation, std::size_t rank) const {
    const int to = operation.stage + (operation.kind == OperationKind::forward ? 1 : -1);
    const bool sends =
        operation.kind != OperationKind::backward_weight && rank_of_.contains(to) && rank_of_.at(to) != rank;
    if (settings_.capacity == 0 || !sends || operation.micro_batch < settings_.capacity) return 0;
    const char kind = operation.kind == OperationKind::forward ? 'F' : 'B';
    const auto taken = found_.find({kind, to, operation.micro_batch - settings_.capacity});
    if (taken == found_.end()) return std::nullopt;
    return taken->second.begin;
  }

  /// When the operation can begin as far as others are concerned. Nothing: not yet.
  std::optional<double> ready_at(const Operation& operation, std::size_t rank) const {
    const auto& [kind, stage, micro_batch] = operation;
    if (kind == OperationKind::forward) return stage == 0 ? 0 : end_of({'F', stage - 1, micro_batch}, rank);
    if (kind == OperationKind::backward_weight) return end_of({'B', stage, micro_batch}, rank);
    const auto own = end_of({'F', stage, micro_batch}, rank);
    if (!own || stage == last_stage_) return own;
    const auto next = end_of({'B', stage + 1, micro_batch}, rank);
    return next ? std::optional(std::max(*own, *next)) : std::nullopt;
  }

  bool try_next(std::size_t rank) {
    const Operation& operation = lists_[rank][done_[rank].size()];
    const auto ready = ready_at(operation, rank), room = has_room(operation, rank);
    if (!ready || !room) return false;
    const auto& times = settings_.times;
    const double begin = std::max({clocks_[rank], *ready, *room});
    const double time =
        times[times.size() == 1 ? 0 : static_cast<std::size_t>(operation.stage)].of(operation.kind);
    clocks_[rank] = begin + time;
    found_[key_of(operation)] = {operation, begin, clocks_[rank]};
    done_[rank].push_back({operation, begin, clocks_[rank]});
    return true;
  }

  const std::vector<OperationList>& lists_;
  const ReplaySettings& settings_;
  std::vector<double> clocks_;
  std::vector<std::vector<TimedOperation>> done_;
  std::map<int, std::size_t> rank_of_;
  std::map<Key, TimedOperation> found_;
  int last_stage_ = 0;
};

std::string describe_deadlock(const std::vector<OperationList>& lists,
                              const std::vector<std::vector<TimedOperation>>& done) {
  std::string waiting;
  for (std::size_t rank = 0; rank < lists.size(); ++rank) {
    if (done[rank].size() == lists[rank].size()) continue;
    waiting += fmt::format("{}rank {} before {}", waiting.empty() ? "" : ", ", rank,
                           to_string(OperationList{lists[rank][done[rank].size()]}));
  }
  return waiting.empty() ? "" : "the schedule would wait for ever: " + waiting;
}

}  // namespace

double OperationTimes::of(OperationKind kind) const {
  switch (kind) {
    case OperationKind::forward:
      return forward;
    case OperationKind::backward:
      return input + weight;
    case OperationKind::backward_input:
      return input;
    case OperationKind::backward_weight:
      return weight;
  }
  return 0;
}

Replay replay_schedule(const std::vector<OperationList>& lists, const ReplaySettings& settings) {
  Run run(lists, settings);
  run.advance();
  Replay replay;
  replay.ranks = run.done();
  replay.deadlock = describe_deadlock(lists, replay.ranks);
  double busy = 0;
  for (const auto& rank : replay.ranks) {
    for (const TimedOperation& timed : rank) busy += timed.end - timed.begin;
    if (!rank.empty()) replay.makespan = std::max(replay.makespan, rank.back().end);
  }
  if (replay.makespan > 0)
    replay.idle_share = 1 - busy / (replay.makespan * static_cast<double>(lists.size()));
  return replay;
}

int most_queued_messages(const std::vector<OperationList>& lists) {
  int most = 0;
  for (std::size_t rank = 0; rank < lists.size(); ++rank) {
    for (std::size_t before = 0; before < lists[rank].size(); ++before) {
      const ReplaySettings settings;
      Run run(lists, settings);
      run.advance(rank, before);
      most = std::max(most, run.queued(rank));
    }
  }
  return most;
}

}  // namespace muster::pipeline
