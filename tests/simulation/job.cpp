// SPDX-License-Identifier: Apache-2.0
#include "job.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>

#include "control_plane/control_plane.hpp"
#include "muster/collective_call.hpp"
#include "network.hpp"

namespace simulator {
namespace {

using namespace std::chrono_literals;
using muster::Error;
using muster::control::Blob;
using muster::control::ControlPlane;
using muster::control::ControlPlaneOptions;
using muster::control::ProcessState;

constexpr auto abort_grace = 1200ms;

// One call of the program. All ranks have the same list.
struct Call {
  enum class Kind { barrier, gather, broadcast, store, query, compute, all_reduce };
  Kind kind;
  std::vector<int> members;
  int root = 0;
  std::chrono::milliseconds wait{0};
  std::chrono::milliseconds longest_computation{0};
};

// An exception that has nothing to do with Muster.
struct OwnError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

std::vector<int> all_ranks(int ranks) {
  std::vector<int> all(static_cast<std::size_t>(ranks));
  std::iota(all.begin(), all.end(), 0);
  return all;
}

class Job {
 public:
  explicit Job(const JobOptions& options);
  JobResult run();

 private:
  struct Rank {
    ControlPlane* plane = nullptr;  // while it lives
    std::shared_ptr<SimulatedChannel> to_leader;
    std::shared_ptr<SimulatedChannel> at_leader;
    Process* process = nullptr;
    Duration start_delay{};
    std::vector<Duration> computations;   // by call
    std::optional<FaultKind> misbehaves;  // when it comes to the call
    std::size_t misbehaves_at = 0;
    std::shared_ptr<muster::control::OperationState> world;
    std::uint64_t reported = 0;  // calls of the world that rank 0 compares
  };

  void choose_hosts();
  void choose_calls();
  void choose_faults(const JobOptions& options);
  void choose_fault(FaultKind kind, Duration when);
  FaultKind choose_kind();
  void inject(const Fault& fault);
  ControlPlaneOptions control_plane_options(const Rank& rank);
  std::vector<ProcessState> query_processes(const Process& own, const std::vector<int>& ranks, Duration wait);
  void admit(int rank);
  int run_program(Rank& rank);
  void make_calls(Rank& rank, ControlPlane& plane);
  void make_call(Rank& rank, ControlPlane& plane, const Call& call, std::size_t number);
  void all_reduce(Rank& rank, ControlPlane& plane, std::chrono::milliseconds wait, std::size_t count);
  int leader_of(int rank) const { return leaders_[static_cast<std::size_t>(rank)]; }
  int connects_to(int rank) const { return leader_of(rank) == rank ? 0 : leader_of(rank); }
  Rank& rank(int number) { return ranks_[static_cast<std::size_t>(number)]; }
  bool misbehaves(Rank& rank, std::size_t number);
  void note_fault(const Rank& rank);

  std::vector<Rank> ranks_;  // after simulator_ ends, its programs no longer use them
  std::vector<Call> calls_;
  std::vector<int> host_of_;
  std::vector<int> leaders_;
  std::vector<muster::Hello> roster_;
  // By operation of the world: how many ranks entered it with each count.
  std::map<std::uint64_t, std::map<std::size_t, std::size_t>> entered_;
  JobResult result_;
  Duration program_length_{};
  std::optional<Network> network_;  // the programs use it until simulator_ has ended
  Simulator simulator_;
  NetworkOptions network_options_;
};

Job::Job(const JobOptions& options) : simulator_(options.seed) {
  int const count = options.ranks > 0 ? options.ranks : static_cast<int>(simulator_.draw(2, 24));
  ranks_.resize(static_cast<std::size_t>(count));
  choose_hosts();
  choose_calls();
  auto const kind_of_network = simulator_.draw(0, 19);
  network_options_.latency = kind_of_network == 0  ? simulator_.draw_time(40ms, 300ms)
                             : kind_of_network < 4 ? simulator_.draw_time(1ms, 40ms)
                                                   : simulator_.draw_time(20us, 500us);
  network_options_.heartbeat_timeout = std::chrono::milliseconds(simulator_.draw(2000, 10'000));
  network_.emplace(simulator_, network_options_);
  choose_faults(options);
}

void Job::choose_hosts() {
  auto const ranks = static_cast<int>(ranks_.size());
  int const ranks_per_host = static_cast<int>(simulator_.draw(1, std::min(ranks, 8)));
  for (int r = 0; r < ranks; ++r) {
    int const host = r / ranks_per_host;
    host_of_.push_back(host);
    leaders_.push_back(host * ranks_per_host);
    muster::Hello hello;
    hello.rank = r;
    hello.host = fmt::format("h{}", host);
    hello.boot_id = hello.host;
    hello.pid = 1000 + r;
    roster_.push_back(hello);
  }
  result_.hosts = host_of_.back() + 1;
}

void Job::choose_calls() {
  auto const ranks = static_cast<int>(ranks_.size());
  auto const count = simulator_.draw(3, 12);
  for (int i = 0; i < count; ++i) {
    Call call{static_cast<Call::Kind>(simulator_.draw(0, 8) % 7), all_ranks(ranks), 0, {}, {}};
    if (call.kind == Call::Kind::gather && ranks > 2 && simulator_.draw_chance(0.5)) {
      std::erase_if(call.members, [this](int) { return simulator_.draw_chance(0.3); });
      if (call.members.empty()) call.members = {0};
    }
    call.root = call.members[static_cast<std::size_t>(
        simulator_.draw(0, static_cast<std::int64_t>(call.members.size()) - 1))];
    call.wait = std::chrono::milliseconds(simulator_.draw(3000, 30'000));
    call.longest_computation = std::chrono::milliseconds(simulator_.draw(0, 300));
    if (call.kind == Call::Kind::compute) call.longest_computation *= 5;
    program_length_ += call.longest_computation;
    calls_.push_back(std::move(call));
  }
  for (auto& one : ranks_) {
    one.start_delay = simulator_.draw_time(0s, 50ms);
    for (const auto& call : calls_)
      one.computations.push_back(simulator_.draw_time(0s, call.longest_computation));
  }
}

FaultKind Job::choose_kind() { return static_cast<FaultKind>(simulator_.draw(0, fault_kinds - 1)); }

void Job::choose_faults(const JobOptions& options) {
  auto const count = options.fault_count ? *options.fault_count : simulator_.draw(0, 2);
  // The ranks are connected by then. Some faults come shortly after another one.
  auto when = 150ms + 4 * network_options_.latency + simulator_.draw_time(0s, program_length_);
  for (int i = 0; i < count; ++i) {
    choose_fault(options.kind ? *options.kind : choose_kind(), when);
    when += simulator_.draw_chance(0.3) ? 0s : simulator_.draw_time(0s, 1s);
  }
}

void Job::choose_fault(FaultKind kind, Duration when) {
  int at = static_cast<int>(simulator_.draw(0, static_cast<std::int64_t>(ranks_.size()) - 1));
  bool const of_host = kind == FaultKind::host_down || kind == FaultKind::link_down;
  if (of_host) at = leader_of(at);
  Fault fault{kind, when, at, {}};
  for (int r = 0; r < static_cast<int>(ranks_.size()); ++r)
    if (of_host ? leader_of(r) == at : r == at) fault.culprits.push_back(r);
  if (kind == FaultKind::throws || kind == FaultKind::exits || kind == FaultKind::computes ||
      kind == FaultKind::skips || kind == FaultKind::differs) {
    rank(at).misbehaves = kind;
    rank(at).misbehaves_at =
        static_cast<std::size_t>(simulator_.draw(0, static_cast<std::int64_t>(calls_.size()) - 1));
    // Ranks that wait for a value that does not come go on.
    for (auto& call : calls_)
      if (call.kind == Call::Kind::store && call.root == at) call.kind = Call::Kind::barrier;
    if (kind == FaultKind::differs) {
      auto& call = calls_[rank(at).misbehaves_at];
      call.kind = Call::Kind::all_reduce;
      call.members = all_ranks(static_cast<int>(ranks_.size()));
    }
  }
  result_.faults.push_back(std::move(fault));
}

JobResult Job::run() {
  result_.host_of = host_of_;
  result_.slow_network = network_options_.latency;
  for (std::size_t r = 0; r < ranks_.size(); ++r)
    ranks_[r].process =
        &simulator_.add_process(host_of_[r], [this, &own = ranks_[r]] { return run_program(own); });
  for (std::size_t r = 1; r < ranks_.size(); ++r) {
    auto& leader = rank(connects_to(static_cast<int>(r)));
    std::tie(ranks_[r].to_leader, ranks_[r].at_leader) =
        network_->connect(*ranks_[r].process, *leader.process);
  }
  for (const auto& fault : result_.faults) simulator_.after(fault.when, [this, &fault] { inject(fault); });
  simulator_.run(300s);
  for (const auto& process : simulator_.processes())
    result_.ranks.push_back({process->state == Process::State::ended, process->exit_code,
                             process->ended - simulator_.start(), process->lines});
  return result_;
}

void Job::inject(const Fault& fault) {
  auto& process = *rank(fault.rank).process;
  switch (fault.kind) {
    case FaultKind::killed:
      return simulator_.kill(process);
    case FaultKind::stopped:
      if (process.state == Process::State::running) network_->stop(process);
      return;
    case FaultKind::host_down:
      network_->isolate(process.host);
      for (int const r : fault.culprits) simulator_.kill(*rank(r).process);
      return;
    case FaultKind::link_down:
      return network_->isolate(process.host);
    default:
      return;  // the program does it
  }
}

ControlPlaneOptions Job::control_plane_options(const Rank& own) {
  ControlPlaneOptions options;
  options.roster = roster_;
  options.host_leaders = leaders_;
  options.heartbeat_timeout =
      std::chrono::duration_cast<std::chrono::milliseconds>(network_options_.heartbeat_timeout);
  options.abort_grace = abort_grace;
  // As a connection to a port that each rank keeps open: refused when its process has ended.
  options.query_processes = [this, &own](const std::vector<int>& ranks, std::chrono::milliseconds wait, int) {
    return query_processes(*own.process, ranks, wait);
  };
  return options;
}

// As connections to the ports that the ranks keep open: refused when their processes have ended.
std::vector<ProcessState> Job::query_processes(const Process& own, const std::vector<int>& ranks,
                                               Duration wait) {
  std::vector<ProcessState> states;
  Duration longest{};
  for (int const other : ranks) {
    const auto& process = *rank(other).process;
    auto const latency = process.host == own.host ? network_options_.host_latency : network_options_.latency;
    auto const round_trip = 2 * simulator_.draw_time(0s, latency);
    bool const answers = network_->reaches(own, process) && round_trip <= wait;
    states.push_back(!answers                                 ? ProcessState::unknown
                     : process.state == Process::State::ended ? ProcessState::ended
                                                              : ProcessState::running);
    longest = std::max(longest, answers ? round_trip : wait);
  }
  simulator_.block_control_thread(longest);
  return states;
}

// Once both control planes are there, the leader accepts the rank.
void Job::admit(int number) {
  auto& own = rank(number);
  int const leader = connects_to(number);
  if (own.plane == nullptr || rank(leader).plane == nullptr || !own.at_leader) return;
  simulator_.after(simulator_.draw_time(0s, network_options_.latency),
                   [this, number, leader, channel = std::exchange(own.at_leader, nullptr)] {
                     simulator_.run_on_control_thread(*rank(leader).process, [this, number, leader, channel] {
                       rank(leader).plane->admit(number, channel);
                     });
                   });
}

int Job::run_program(Rank& own) {
  int const number = own.process->rank;
  simulator_.compute(own.start_delay);
  auto plane = ControlPlane::simulate(number, control_plane_options(own), own.to_leader);
  own.plane = plane.get();
  for (int r = 1; r < static_cast<int>(ranks_.size()); ++r)
    if (r == number || leader_of(r) == number || number == 0) admit(r);
  try {
    make_calls(own, *plane);
    plane->leave();
    return 0;
  } catch (const Error& error) {
    plane->abort_connections();
    if (!error.reported_elsewhere()) simulator_.print_line(error.what());
    return error.exit_code();
  } catch (const OwnError& error) {
    plane->abort_with_local_error();
    simulator_.print_line(error.what());
    return 1;
  }
}

void Job::make_calls(Rank& own, ControlPlane& plane) {
  plane.barrier("join", 30s);
  plane.enter_phase("running");
  own.world = plane.register_communicator("world");
  plane.register_handler("echo", [](const Blob& request) { return request; });
  for (std::size_t i = 0; i < calls_.size(); ++i) {
    simulator_.compute(own.computations[i]);
    if (misbehaves(own, i)) continue;
    make_call(own, plane, calls_[i], i);
  }
  if (result_.last_call == Duration{0}) result_.last_call = muster::Clock::now() - simulator_.start();
  plane.final_barrier("leave", 30s);
}

// True when the rank leaves out this call.
bool Job::misbehaves(Rank& own, std::size_t number) {
  if (!own.misbehaves || own.misbehaves_at != number) return false;
  note_fault(own);
  switch (*own.misbehaves) {
    case FaultKind::exits:
      simulator_.end_program(0);
    case FaultKind::throws:
      throw OwnError(fmt::format("rank {}: out of ideas", own.process->rank));
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
void Job::note_fault(const Rank& own) {
  for (auto& fault : result_.faults)
    if (fault.kind == *own.misbehaves && fault.rank == own.process->rank)
      fault.when = muster::Clock::now() - simulator_.start();
}

void Job::make_call(Rank& own, ControlPlane& plane, const Call& call, std::size_t number) {
  int const self = own.process->rank;
  auto const name = fmt::format("call {}", number);
  bool const is_member = std::count(call.members.begin(), call.members.end(), self) > 0;
  switch (call.kind) {
    case Call::Kind::barrier:
      return plane.barrier(name, call.wait);
    case Call::Kind::gather:
      if (is_member) plane.gather(name, call.members, Blob(8, 1), call.wait);
      return;
    case Call::Kind::broadcast:
      plane.broadcast(name, call.members, call.root, Blob(8, 1), call.wait);
      return;
    case Call::Kind::store:
      if (self == call.root) {
        plane.put(name, Blob(8, 1));
      } else {
        plane.get(name, 60s);  // longer than any collective call: these name the missing ranks
      }
      return;
    case Call::Kind::query:
      if (self == call.root) plane.query_ranks(call.members, "echo", Blob(8, 1), 1s);
      return;
    case Call::Kind::all_reduce: {
      bool const differs = own.misbehaves == FaultKind::differs && own.misbehaves_at == number;
      return all_reduce(own, plane, call.wait, differs ? 7 : 8);
    }
    case Call::Kind::compute:
      return;
  }
}

// As CommunicatorGroup, on a transport that completes an operation when all ranks make the same call.
void Job::all_reduce(Rank& own, ControlPlane& plane, std::chrono::milliseconds wait, std::size_t count) {
  auto const ranks = static_cast<int>(ranks_.size());
  muster::detail::CollectiveCall const call{muster::detail::OperationKind::all_reduce, nullptr, nullptr,
                                            count};
  auto& world = *own.world;
  world.enter(call);
  auto const number = world.number.load();
  if (++own.reported <= 4)
    plane.report_call({"world", number, ranks, muster::detail::describe_call(call), world.digest()});
  auto& entered = entered_[number][count];
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
  while (entered != ranks_.size()) {
    plane.check();
    if (deadline.passed()) plane.fail_operation(all_ranks(ranks), report());
    if (report().waited >= next_report) {
      auto warning = report();
      warning.warning = warning.silent = true;
      plane.report_operation(all_ranks(ranks), warning);
      next_report *= 2;
    }
    simulator_.compute(10ms);
  }
  world.inside = false;
}

}  // namespace

JobResult run_job(const JobOptions& options) { return Job(options).run(); }

}  // namespace simulator
