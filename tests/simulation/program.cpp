// SPDX-License-Identifier: Apache-2.0
#include "program.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "muster/collective_call.hpp"

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

Program::Program(Simulator& simulator, const JobPlan& plan, JobResult& result, Session& session, int rank,
                 ControlPlane& plane)
    : simulator_(simulator),
      plan_(plan),
      result_(result),
      session_(session),
      rank_(rank),
      process_(session.members()[static_cast<std::size_t>(rank)]),
      plane_(plane) {}

std::optional<std::size_t> Program::run(std::size_t first, bool has_joined) {
  if (!world_) {
    if (!has_joined) plane_.barrier("join", 30s);
    plane_.enter_phase("running");
    world_ = plane_.register_communicator("world");
    plane_.register_handler("echo", [](const Blob& request) { return request; });
  }
  const auto& own = plan_.ranks[static_cast<std::size_t>(process_)];
  for (std::size_t i = first; i < plan_.calls.size(); ++i) {
    simulator_.compute(own.computations[i]);
    if (plan_.grow_at == i && session_.number() == 0) return i;
    if (own.misbehaves == FaultKind::leaves && own.misbehaves_at == i) {
      note_fault();
      plane_.final_barrier("leave", 30s);
      return std::nullopt;
    }
    if (!misbehaves(i)) make_call(plan_.calls[i], i);
  }
  if (result_.last_call == Duration{0}) result_.last_call = muster::Clock::now() - simulator_.start();
  plane_.final_barrier("leave", 30s);
  return std::nullopt;
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
  switch (call.kind) {
    case Call::Kind::barrier:
      return plane_.barrier(name, call.wait);
    case Call::Kind::gather:
      if (is_in(rank_)) plane_.gather(name, members, Blob(8, 1), call.wait);
      return;
    case Call::Kind::broadcast:
      plane_.broadcast(name, members, root, Blob(8, 1), call.wait);
      return;
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

// As CommunicatorGroup, on a transport that completes an operation when all ranks make the same call.
void Program::all_reduce(std::chrono::milliseconds wait, std::size_t count) {
  auto const ranks = session_.size();
  muster::detail::CollectiveCall const call{muster::detail::OperationKind::all_reduce, nullptr, nullptr,
                                            count};
  auto& world = *world_;
  world.enter(call);
  auto const number = world.number.load();
  if (++reported_ <= 4)
    plane_.report_call({"world", number, ranks, muster::detail::describe_call(call), world.digest()});
  auto& entered = session_.entered[number][count];
  ++entered;
  world.inside = true;
  muster::Deadline const deadline(wait);
  auto next_report = 1000ms;
  auto const report = [&] {
    return muster::protocol::StalledOperation{.communicator = "world",
                                              .number = number,
                                              .operation = "all_reduce",
                                              .call = world.operation_at(number),
                                              .waited = deadline.length() - deadline.remaining()};
  };
  while (entered != static_cast<std::size_t>(ranks)) {
    plane_.check();
    if (deadline.passed()) plane_.fail_operation(all_ranks(ranks), report());
    if (report().waited >= next_report) {
      auto warning = report();
      warning.warning = warning.silent = true;
      plane_.report_operation(all_ranks(ranks), warning);
      next_report *= 2;
    }
    simulator_.compute(10ms);
  }
  world.inside = false;
}

}  // namespace simulator
