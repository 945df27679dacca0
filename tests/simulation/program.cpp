// SPDX-License-Identifier: Apache-2.0
#include "program.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "muster/collective_call.hpp"
#include "transport/flight_recorder.hpp"

namespace simulator {

using namespace std::chrono_literals;
using muster::control::Blob;
using muster::control::ControlPlane;

namespace {

std::vector<int> all_ranks(int ranks) {
  std::vector<int> all(static_cast<std::size_t>(ranks));
  std::iota(all.begin(), all.end(), 0);
  return all;
}

}  // namespace

Program::Program(Simulator& simulator, const JobPlan& plan, JobResult& result, Session& session,
                 std::shared_ptr<muster::detail::JobContext> job)
    : simulator_(simulator),
      plan_(plan),
      result_(result),
      session_(session),
      job_(std::move(job)),
      rank_(job_->rank),
      process_(session.members()[static_cast<std::size_t>(rank_)]),
      plane_(*job_->plane) {}

void Program::join(bool has_joined) {
  if (!has_joined)
    record_wait("join", all_ranks(session_.size()), 30s, [this] { plane_.barrier("join", 30s); });
  plane_.enter_phase("running");
  world_.emplace(job_, "world");
  plane_.register_handler("echo", [](const Blob& request) { return request; });
}

std::optional<std::size_t> Program::run(std::size_t first) {
  const auto& own = plan_.ranks[static_cast<std::size_t>(process_)];
  for (std::size_t i = first; i < plan_.calls.size(); ++i) {
    simulator_.compute(own.computations[i]);
    if (plan_.grow_at == i && session_.number() == 0) return i;
    if (own.misbehaves == FaultKind::leaves && own.misbehaves_at == i) {
      note_fault();
      leave();
      return std::nullopt;
    }
    if (!misbehaves(i)) make_call(plan_.calls[i], i);
  }
  if (result_.last_call == Duration{0}) result_.last_call = muster::Clock::now() - simulator_.start();
  leave();
  return std::nullopt;
}

void Program::leave() {
  record_wait("leave", all_ranks(session_.size()), 30s, [this] { plane_.final_barrier("leave", 30s); });
}

void Program::record_wait(const std::string& name, const std::vector<int>& members,
                          std::chrono::milliseconds limit, const std::function<void()>& call) {
  auto const since_start = [this] { return muster::Clock::now() - simulator_.start(); };
  auto& record = result_.sessions[session_.id()].calls[name];
  if (record.members.empty())
    for (int const rank : members)
      record.members.push_back(session_.members()[static_cast<std::size_t>(rank)]);
  record.limit = limit;
  auto& wait = record.waits[process_];
  wait.begin = since_start();
  bool const has_failed = plane_.failed();
  auto const end = [&](bool failed) {
    if (simulator_.self().draining) return;
    wait.end = since_start();
    wait.failed = failed;
    auto& stays = result_.ranks[static_cast<std::size_t>(process_)].stays;
    if (has_failed && !failed) stays.back().overlooked_failure = true;
  };
  try {
    call();
  } catch (...) {
    end(true);
    throw;
  }
  end(false);
}

// True when the rank leaves out this call.
bool Program::misbehaves(std::size_t call) {
  const auto& own = plan_.ranks[static_cast<std::size_t>(process_)];
  if (!own.misbehaves || own.misbehaves_at != call) return false;
  note_fault();
  switch (*own.misbehaves) {
    case FaultKind::exits:
      simulator_.end_program(0);
    case FaultKind::throws:
      throw OwnError(fmt::format("rank {}: out of ideas", rank_));
    case FaultKind::computes:
      simulator_.compute(40s);
      return false;
    case FaultKind::differs:
      return false;
    default:
      return true;
  }
}

// The program causes the fault now.
void Program::note_fault() {
  for (auto& fault : result_.faults)
    if (fault.kind == plan_.ranks[static_cast<std::size_t>(process_)].misbehaves && fault.rank == process_)
      fault.when = muster::Clock::now() - simulator_.start();
}

void Program::make_call(const Call& call, std::size_t number) {
  auto const name = fmt::format("call {}", number);
  auto const is_in = [&](int rank) {
    return std::count(call.members.begin(), call.members.end(),
                      session_.members()[static_cast<std::size_t>(rank)]) > 0;
  };
  auto members = all_ranks(session_.size());
  std::erase_if(members, [&](int rank) { return !is_in(rank); });
  if (members.empty()) return;  // they are lost
  int root = members.front();
  for (int const rank : members)
    if (session_.members()[static_cast<std::size_t>(rank)] == call.root) root = rank;
  auto const collective = [&](const std::function<void()>& make) {
    record_wait(name, members, call.wait, make);
  };
  switch (call.kind) {
    case Call::Kind::barrier:
      return collective([&] { plane_.barrier(name, call.wait); });
    case Call::Kind::gather:
      if (is_in(rank_)) collective([&] { plane_.gather(name, members, Blob(8, 1), call.wait); });
      return;
    case Call::Kind::broadcast:
      return collective([&] { plane_.broadcast(name, members, root, Blob(8, 1), call.wait); });
    case Call::Kind::store:
      if (rank_ == root) {
        plane_.put(name, Blob(8, 1));
      } else {
        plane_.get(name, 60s);  // longer than any collective call: these name the missing ranks
      }
      return;
    case Call::Kind::query:
      if (rank_ == root) plane_.query_ranks(members, "echo", Blob(8, 1), 1s);
      return;
    case Call::Kind::all_reduce: {
      const auto& own = plan_.ranks[static_cast<std::size_t>(process_)];
      bool const differs = own.misbehaves == FaultKind::differs && own.misbehaves_at == number;
      return all_reduce(call.wait, differs ? wrong_count : right_count);
    }
    case Call::Kind::compute:
      return;
  }
}

// On a transport that completes an operation when all ranks make the same call.
void Program::all_reduce(std::chrono::milliseconds wait, std::size_t count) {
  muster::detail::CollectiveCall const call{muster::detail::OperationKind::all_reduce, nullptr, nullptr,
                                            count};
  auto const name = muster::control::describe_operation("all_reduce", world_->number() + 1, "world");
  record_wait(name, all_ranks(session_.size()), wait, [&] {
    job_->operation_timeout = wait;
    world_->begin_call(call);
    auto& entered = session_.entered[world_->number()][count];
    ++entered;
    auto const waits = world_->wait_scope();
    while (entered != static_cast<std::size_t>(session_.size())) {
      world_->check();
      if (world_->deadline().passed()) world_->fail_stalled(wait);
      world_->warn_if_stalled();
      simulator_.compute(10ms);
    }
  });
}

}  // namespace simulator
