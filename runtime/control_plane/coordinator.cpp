// SPDX-License-Identifier: Apache-2.0
#include "control_plane/coordinator.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "control_plane/deadlock_check.hpp"
#include "control_plane/rank_ranges.hpp"
#include "control_plane/round_description.hpp"
#include "deadline.hpp"
#include "log.hpp"
#include "roster/roster.hpp"
#include "transport/fd_limit.hpp"

namespace muster::control {
namespace {

using bootstrap::describe_rank;
using bootstrap::describe_ranks;

// Each thread of a rank waits in at most one round on each communicator.
constexpr std::size_t max_rounds = 4096;
// In nanoseconds since 1970, in the year 2116: sums and differences do not overflow.
constexpr std::int64_t latest_time = std::int64_t{1} << 62;

}  // namespace

Coordinator::Coordinator(asio::io_context& io, DeliverToSelf deliver_to_self, std::vector<Hello> roster,
                         std::vector<int> host_leaders, std::chrono::milliseconds heartbeat_timeout,
                         std::chrono::milliseconds stall_warning,
                         std::shared_ptr<const FlightRecorder> recorder)
    : io_(io),
      deliver_to_self_(std::move(deliver_to_self)),
      connections_(
          std::move(recorder), heartbeat_timeout,
          [this](int rank) {
            ever_connected_.insert(rank);
            connected_at_[rank] = read_clocks().system;
            if (failure_) connections_.send(rank, encode(*failure_));
          },
          [this](int rank, const Message& message) { on_message(rank, message); },
          [this](int rank, const DisconnectCause& cause) { on_disconnect(rank, cause); }),
      roster_(std::move(roster)),
      host_leaders_(std::move(host_leaders)),
      store_(io,
             [this](int rank, std::uint64_t id, const protocol::Value& value) {
               send({rank}, encode(protocol::Response{id, encode(value)}));
             }),
      query_(io, [this](const std::vector<int>& ranks, const Message& message) { send(ranks, message); }),
      stall_warning_(stall_warning) {
  register_handlers();
}

void Coordinator::register_handlers() {
  using namespace protocol;
  handlers_.on<Contribution>([this](int rank, Contribution one) { add_contribution(rank, std::move(one)); });
  handlers_.on<RpcRequest>([this](int rank, RpcRequest request) { forward(rank, std::move(request)); });
  handlers_.on<RpcResponse>([this](int rank, RpcResponse response) { forward(rank, std::move(response)); });
  handlers_.on<StalledOperation>(
      [this](int rank, const StalledOperation& one) { diagnose_stall(rank, one); });
  handlers_.on<CallReport>([this](int rank, const CallReport& report) {
    if (failure_) return;
    if (auto const failure = calls_.add(rank, report, roster_)) fail(*failure);
  });
  handlers_.on<Put>([this](int rank, const Put& request) {
    if (!store_.put(request.name, request.value)) fail_full_store(rank, request.name);
  });
  handlers_.on<StoreOperation>([this](int rank, const StoreOperation& request) {
    if (!store_.apply(rank, request)) fail_full_store(rank, request.name);
  });
  handlers_.on<Get>([this](int rank, const Get& request) { get(rank, request); });
  handlers_.on<ReadClocks>([this](int rank, const ReadClocks& request) {
    auto const now = read_clocks();
    send({rank}, encode(Response{request.id, encode(Clocks{now.system, now.steady})}));
  });
  handlers_.on<HostClock>([this](int rank, const HostClock& clock) {
    auto const connected = connected_at_.find(rank);
    if (connected == connected_at_.end() || clock.system < 0 || clock.system > latest_time) return;
    host_clocks_[rank] = bound_offset(clock.system, connected->second, read_clocks().system);
  });
  handlers_.on<LauncherExit>(
      [this](int rank, const LauncherExit& exit) { on_launcher_exit(rank, exit.launcher); });
  handlers_.on<FailureReport>([this](int rank, const FailureReport& report) {
    fail({report.code, rank, report.text});
  });
  handlers_.on<RankState>([this](int rank, const RankState& state) {
    if (!state.wait.members.is_null()) decode_ranks(state.wait.members, static_cast<int>(roster_.size()));
    query_.add_reply(rank, add_round(rounds_, rank, state));
  });
}

void Coordinator::open(std::unique_ptr<AuthenticatingAcceptor> acceptor, LocalListener* listener,
                       const Key& key, const Key& host_key) {
  std::vector<int> leaders;
  std::vector<int> host_ranks;
  for (int rank = 1; rank < static_cast<int>(roster_.size()); ++rank) {
    int const leader = host_leaders_.at(static_cast<std::size_t>(rank));
    if (leader == rank) leaders.push_back(rank);
    if (leader == 0) host_ranks.push_back(rank);
  }
  raise_fd_limit(leaders.size() + host_ranks.size());
  connections_.open(std::move(acceptor), 0, leaders, key);
  if (!host_ranks.empty())
    connections_.open(std::make_unique<AuthenticatingAcceptor>(io_, *listener), 0, host_ranks, host_key);
}

void Coordinator::watch_ended_ranks(ReporterCheck::Query query) {
  std::vector<int> others(roster_.size() - 1);
  std::iota(others.begin(), others.end(), 1);
  ended_ranks_.watch(roster_, std::move(others), std::move(query));
  ended_ranks_.start([this](const Failure& loss) { fail(loss); });
}

void Coordinator::close() {
  connections_.close();
  ended_ranks_.stop();
  rounds_.clear();
  store_.cancel_waiters();
  query_.cancel();
}

// A connection sends messages of its own rank. A host leader also forwards those of its host's ranks.
void Coordinator::on_message(int leader, const Message& message) {
  auto const& type = protocol::type_of(message);
  if (type != protocol::FromRank::type && type != protocol::RankConnected::type &&
      type != protocol::RankDisconnected::type)
    return handle(leader, message);
  auto const rank = message.at("rank").get<int>();
  if (rank < 0 || rank >= static_cast<int>(roster_.size()) ||
      host_leaders_[static_cast<std::size_t>(rank)] != leader) {
    throw Error(ErrorCode::system, "a host leader sent a message for a rank of another host");
  }
  if (type == protocol::FromRank::type) return handle(rank, message.at("message"));
  if (type == protocol::RankDisconnected::type) {
    auto const lost = protocol::decode<protocol::RankDisconnected>(message);
    return on_disconnect(rank, {lost.cause, lost.confirmed_dead});
  }
  ever_connected_.insert(rank);
  if (failure_) send({rank}, encode(*failure_));
}

void Coordinator::on_disconnect(int rank, const DisconnectCause& cause) {
  if (shutting_down_ || failure_ || lost_.contains(rank)) return;
  auto const loss = make_rank_loss(roster_[static_cast<std::size_t>(rank)], 0, cause);
  survives_loss_of(rank) ? go_on_without(rank, loss.text) : fail(loss);
}

// The ranks that are connected through it are lost, too.
std::vector<int> Coordinator::ranks_lost_with(int rank) const {
  std::vector<int> ranks{rank};
  for (int other = 0; other < static_cast<int>(roster_.size()); ++other)
    if (other != rank && host_leaders_[static_cast<std::size_t>(other)] == rank) ranks.push_back(other);
  return ranks;
}

bool Coordinator::survives_loss_of(int rank) const {
  auto const ranks = ranks_lost_with(rank);
  return std::all_of(ranks.begin(), ranks.end(), [this](int one) { return survivable_.contains(one); });
}

void Coordinator::go_on_without(int rank, const std::string& what) {
  auto const ranks = ranks_lost_with(rank);
  log::warn("{}: the job goes on without {}", what, describe_ranks(roster_, ranks));
  lost_.insert(ranks.begin(), ranks.end());
  std::vector<std::string> complete;
  for (auto& [name, round] : rounds_) {
    for (int const lost : ranks) round->leave_out(lost);
    if (round->is_complete()) complete.push_back(name);
  }
  std::vector<int> left;
  for (int other = 0; other < static_cast<int>(roster_.size()); ++other)
    if (!lost_.contains(other)) left.push_back(other);
  send(left, encode(protocol::RanksLost{ranks, what}));
  for (const auto& name : complete)
    if (auto const found = rounds_.find(name); found != rounds_.end()) complete_round(name, *found->second);
}

// The output of that host's ranks may be lost with the launcher, so a rank of another host reports.
void Coordinator::on_launcher_exit(int rank, const std::string& launcher) {
  if (shutting_down_ || failure_) return;
  const Hello& hello = roster_[static_cast<std::size_t>(rank)];
  const Hello& self = roster_.front();
  bool const on_rank0_host = hello.host == self.host && hello.boot_id == self.boot_id;
  fail({ErrorCode::lost_rank, on_rank0_host ? reporter_when_rank0_lost(roster_) : 0,
        fmt::format("{}, which started {}, ended: see the log of the launcher on host {}", launcher,
                    describe_rank(hello), hello.host)});
}

// Sends one message per host. Rank 0 comes last: its program may end the process on this message.
void Coordinator::send(const std::vector<int>& ranks, const Message& message) {
  std::map<int, std::vector<int>> by_leader;
  for (int const rank : ranks) by_leader[host_leaders_[static_cast<std::size_t>(rank)]].push_back(rank);
  for (const auto& [leader, targets] : by_leader) {
    if (leader == 0) continue;
    if (targets.size() == 1 && targets.front() == leader)
      connections_.send(leader, message);
    else
      connections_.send(leader, encode(protocol::ToRanks{targets, message}));
  }
  for (int const rank : by_leader[0])
    if (rank != 0) connections_.send(rank, message);
  if (std::ranges::find(ranks, 0) != ranks.end()) deliver_to_self_(message);
}

void Coordinator::handle(int rank, const Message& message) { handlers_.dispatch(rank, message); }

template <typename RpcMessage>
void Coordinator::forward(int from, RpcMessage message) {
  if (message.to < 0 || message.to >= static_cast<int>(roster_.size()))
    throw Error(ErrorCode::system, "a request to a rank that does not exist");
  message.from = from;
  send({message.to}, encode(message));
}

void Coordinator::add_contribution(int rank, protocol::Contribution contribution) {
  if (failure_) return;
  auto const name = contribution.name;
  auto found = rounds_.find(name);
  if (found == rounds_.end()) {
    if (rounds_.size() >= max_rounds) {
      return fail({ErrorCode::usage, rank,
                   fmt::format("{} joined '{}' while {} rounds wait for other ranks: all ranks must make the "
                               "same calls",
                               describe_rank(roster_[static_cast<std::size_t>(rank)]), name, max_rounds)});
    }
    auto round = std::make_unique<GatherRound>(io_, contribution, static_cast<int>(roster_.size()));
    for (int const lost : lost_) round->leave_out(lost);
    round->timer.expires_after(round->timeout());
    round->timer.async_wait([this, name](const asio::error_code& error) {
      auto const late = rounds_.find(name);
      if (!error && late != rounds_.end() && !failure_ && (!query_.running() || query_is_warning_))
        on_round_timeout(name, *late->second);
    });
    found = rounds_.emplace(name, std::move(round)).first;
    if (stall_warning_.count() > 0) schedule_round_warning(name, stall_warning_);
  }
  auto& round = *found->second;
  if (!round.add(rank, std::move(contribution))) {
    return fail({ErrorCode::usage, rank,
                 fmt::format("{} joined '{}' with a different member list or twice: all ranks must make the "
                             "same calls in the same order",
                             describe_rank(roster_[static_cast<std::size_t>(rank)]), name)});
  }
  if (round.is_complete()) return complete_round(name, round);
  if (rounds_.size() == 1) return;
  if (auto const failure = find_departure(roster_, rounds_)) fail(*failure);
}

void Coordinator::complete_round(const std::string& name, GatherRound& round) {
  auto const done = encode(round.result(name));
  if (round.last()) shutting_down_ = true;
  auto const members = round.members();
  rounds_.erase(name);  // before rank 0 gets the result and starts the next round of this name
  send(members, done);
}

// `waited`: the age of the round at the next warning.
void Coordinator::schedule_round_warning(const std::string& name, std::chrono::milliseconds waited) {
  auto& round = *rounds_.at(name);
  if (waited >= round.timeout()) return;
  round.warning.expires_at(round.timer.expiry() - round.timeout() + waited);
  round.warning.async_wait([this, name, waited](const asio::error_code& error) {
    auto const found = rounds_.find(name);
    if (error || failure_ || found == rounds_.end()) return;
    stall_log_.warn(waited, fmt::format("{} waits: {}", name,
                                        describe_missing(roster_, *found->second, ever_connected_, waited)));
    schedule_round_warning(name, 2 * waited);
  });
}

void Coordinator::on_round_timeout(const std::string& name, const GatherRound& round) {
  auto const arrived = round.arrived();
  std::set<int> unexplained;
  auto const text = describe_late(roster_, rounds_, name, round, ever_connected_, unexplained);
  std::set<int> queried = unexplained;
  queried.insert(arrived.begin(), arrived.end());
  // A rank may only be cut off, because its host leader is lost.
  for (int const rank : std::set(queried)) queried.insert(host_leaders_[static_cast<std::size_t>(rank)]);
  std::erase_if(queried, [this](int rank) { return rank != 0 && !ever_connected_.contains(rank); });
  query_is_warning_ = false;
  query_.start(with_connected(queried), {},
               [this, text, arrived, unexplained, queried](const RankStates& states) {
                 fail_late_round(text, arrived, unexplained, queried, states);
               });
}

// These, and all that are connected: any of them may be one for which these wait.
std::vector<int> Coordinator::with_connected(std::set<int> ranks) const {
  ranks.insert(0);
  ranks.insert(ever_connected_.begin(), ever_connected_.end());
  for (int const lost : lost_) ranks.erase(lost);
  return {ranks.begin(), ranks.end()};
}

// A wait that had no end is an error of usage, and not of time.
void Coordinator::fail_wait(Failure failure, const std::vector<int>& waiting, const RankStates& states) {
  DeadlockCheck check(states, static_cast<int>(roster_.size()));
  if (failure.code != ErrorCode::deadline || check.ranks().empty()) return fail(failure);
  query_is_warning_ = false;
  query_.start(check.ranks(), check.query(),
               [this, failure = std::move(failure), waiting, check](const RankStates& second) mutable {
                 if (check.is_any_deadlocked(waiting, second, rounds_)) {
                   failure.code = ErrorCode::usage;
                   failure.text += ": all ranks must make the same calls in the same order";
                 }
                 fail(failure);
               });
}

// The lowest rank that waits in the round reports, if it still answers.
void Coordinator::fail_late_round(const std::string& text, const std::vector<int>& arrived,
                                  const std::set<int>& unexplained, const std::set<int>& queried,
                                  const RankStates& states) {
  std::vector<int> described;
  for (int const rank : queried)
    if (unexplained.contains(rank) || !states.contains(rank)) described.push_back(rank);
  auto const reporter =
      std::find_if(arrived.begin(), arrived.end(), [&](int rank) { return states.contains(rank); });
  fail_wait({ErrorCode::deadline, reporter == arrived.end() ? 0 : *reporter,
             text + describe_current_waits(described, states)},
            arrived, states);
}

void Coordinator::diagnose_stall(int rank, const protocol::StalledOperation& report) {
  // A query that ends with the job's failure, for a round or an operation, is not interrupted.
  if (failure_ || (query_.running() && !query_is_warning_)) return;
  auto const members = decode_ranks(report.members, static_cast<int>(roster_.size()));
  if (!report.warning) return query_stall(rank, report, members);
  if (!stall_log_.is_new(report)) return;
  // Ranks of several communicators report at the same moments, again and again.
  query_.when_idle([this, rank, report, members] { query_stall(rank, report, members); });
}

void Coordinator::query_stall(int rank, const protocol::StalledOperation& report,
                              const std::vector<int>& members) {
  query_is_warning_ = report.warning;
  // A rank that leaves after its reply may have entered the operation in between.
  auto const leaving = leaving_ranks(rounds_);
  bool const is_late = !report.warning && report.code == ErrorCode::deadline;
  query_.start(is_late ? with_connected({members.begin(), members.end()}) : members,
               {.communicator = report.communicator, .number = report.number},
               [this, rank, report, members, leaving,
                diagnosis = StallDiagnosis(rank, report, members)](const RankStates& states) {
                 // An earlier call may have ended on all ranks although it differed.
                 if (auto const first = diagnosis.first_mismatch(states); first && *first < report.number) {
                   auto earlier = report;
                   earlier.number = *first;
                   return query_mismatch(StallDiagnosis(rank, earlier, members), members, earlier);
                 }
                 auto const gone = diagnosis.find_behind(states, leaving);
                 auto const call = describe_operation(report.operation, report.number, report.communicator);
                 if (!gone.empty()) return fail(departure(roster_, gone, {rank}, call));
                 auto failure = diagnosis.diagnose(roster_, states);
                 if (!failure) return;
                 if (failure->code == ErrorCode::deadline) {
                   auto missing = diagnosis.find_missing(states);
                   failure->text += describe_other_rounds(roster_, rounds_, missing);
                 }
                 // Ranks in different operations never complete them.
                 if (!report.warning || failure->code == ErrorCode::usage)
                   return fail_wait(*failure, diagnosis.find_waiting(states), states);
                 if (!report.silent) stall_log_.warn(report.waited, failure->text);
               });
}

void Coordinator::query_mismatch(const StallDiagnosis& diagnosis, const std::vector<int>& members,
                                 const protocol::StalledOperation& report) {
  query_is_warning_ = false;
  query_.start(members, {.communicator = report.communicator, .number = report.number},
               [this, diagnosis](const RankStates& states) { fail(diagnosis.mismatch(roster_, states)); });
}

void Coordinator::fail_full_store(int rank, const std::string& name) {
  fail({ErrorCode::usage, rank,
        fmt::format("{} put '{}' into the job's store, which then holds more than {} MiB",
                    describe_rank(roster_[static_cast<std::size_t>(rank)]), name, max_store_bytes >> 20)});
}

void Coordinator::get(int rank, const protocol::Get& request) {
  if (store_.get(rank, request)) return;
  fail({ErrorCode::usage, rank,
        fmt::format("{} requested '{}' from the job's store while {} of its requests already wait",
                    describe_rank(roster_[static_cast<std::size_t>(rank)]), request.name, max_waiters)});
}

void Coordinator::fail(const Failure& failure) {
  if (failure_) return;
  failure_ = failure;
  log::debug("control: failure: {}", failure.text);
  rounds_.clear();
  query_.cancel();
  store_.cancel_waiters();
  std::vector<int> all_ranks(roster_.size());
  std::iota(all_ranks.begin(), all_ranks.end(), 0);
  send(all_ranks, encode(failure));
}

}  // namespace muster::control
