// SPDX-License-Identifier: Apache-2.0
#include "control_plane/coordinator.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "control_plane/clock_offset.hpp"
#include "control_plane/rank_ranges.hpp"
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

}  // namespace

Coordinator::Coordinator(asio::io_context& io, DeliverToSelf deliver_to_self,
                         std::shared_ptr<const FlightRecorder> recorder)
    : io_(io),
      deliver_to_self_(std::move(deliver_to_self)),
      connections_(
          std::move(recorder),
          [this](int rank) {
            ever_connected_.insert(rank);
            if (failure_) connections_.send(rank, to_message(*failure_));
          },
          [this](int rank, const Message& message) { on_message(rank, message); },
          [this](int rank, const DisconnectCause& cause) { on_disconnect(rank, cause); }),
      acceptor_(std::make_unique<AuthenticatingAcceptor>(io)),
      port_(acceptor_->port()),
      store_(io, [this](int rank, const Message& message) { send({rank}, message); }) {}

void Coordinator::open(std::vector<Hello> roster, std::vector<int> host_leaders, const Key& key,
                       std::chrono::milliseconds heartbeat_timeout, std::chrono::milliseconds stall_warning) {
  stall_warning_ = stall_warning;
  roster_ = std::move(roster);
  host_leaders_ = std::move(host_leaders);
  std::vector<int> leaders;
  std::vector<int> host_ranks;
  for (int rank = 1; rank < static_cast<int>(roster_.size()); ++rank) {
    int const leader = host_leaders_.at(static_cast<std::size_t>(rank));
    if (leader == rank) leaders.push_back(rank);
    if (leader == 0) host_ranks.push_back(rank);
  }
  raise_fd_limit(leaders.size() + host_ranks.size());
  connections_.open(std::move(acceptor_), leaders, key, heartbeat_timeout);
  if (!host_ranks.empty())
    connections_.open(std::make_unique<AuthenticatingAcceptor>(io_, local_name(key, 0)), host_ranks, key,
                      heartbeat_timeout);
}

void Coordinator::close() {
  connections_.close();
  rounds_.clear();
  store_.cancel_waiters();
  stall_diagnosis_.reset();
  late_rank_query_.reset();
}

// A connection sends messages of its own rank. A host leader also forwards those of its host's ranks.
void Coordinator::on_message(int leader, const Message& message) {
  auto const& kind = message.at("is").get_ref<const std::string&>();
  if (kind != "from" && kind != "came" && kind != "lost") return handle(leader, message);
  auto const rank = message.at("rank").get<int>();
  if (rank < 0 || rank >= static_cast<int>(roster_.size()) ||
      host_leaders_[static_cast<std::size_t>(rank)] != leader) {
    throw Error(ErrorCode::system, "a host leader sent a message for a rank of another host");
  }
  if (kind == "from") return handle(rank, message.at("message"));
  if (kind == "lost")
    return on_disconnect(rank, {message.at("how").get<std::string>(), message.at("certain").get<bool>()});
  ever_connected_.insert(rank);
  if (failure_) send({rank}, to_message(*failure_));
}

void Coordinator::on_disconnect(int rank, const DisconnectCause& cause) {
  if (shutting_down_ || failure_) return;
  fail(make_rank_loss(roster_[static_cast<std::size_t>(rank)], 0, cause));
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
    if (targets.size() == 1 && targets.front() == leader) {
      connections_.send(leader, message);
    } else {
      connections_.send(leader, {{"is", "to"}, {"ranks", targets}, {"message", message}});
    }
  }
  bool self = false;
  for (int const rank : by_leader[0]) {
    if (rank == 0) {
      self = true;
    } else {
      connections_.send(rank, message);
    }
  }
  if (self) deliver_to_self_(message);
}

void Coordinator::handle(int rank, const Message& message) {
  auto const& kind = message.at("is").get_ref<const std::string&>();
  if (kind == "arrive") return add_contribution(rank, message);
  if (kind == "ask" || kind == "told") return forward(rank, message);
  if (kind == "stalled") return start_stall_diagnosis(rank, message);
  if (kind == "put") return put(rank, message);
  if (kind == "get") return get(rank, message);
  if (kind == "clocks") return send_clocks(rank, message);
  if (kind == "orphaned") return on_launcher_exit(rank, message.at("launcher").get<std::string>());
  if (kind == "broken") {
    auto failure = parse_failure(message);
    failure.reporter = rank;
    return fail(failure);
  }
  if (kind == "at" && late_rank_query_) {
    late_rank_query_->add_reply(rank, message);
    if (late_rank_query_->all_replied()) report_late_ranks();
  }
  if (kind == "here" && stall_diagnosis_) {
    stall_diagnosis_->add_reply(rank, message);
    if (stall_diagnosis_->all_replied()) finish_stall_diagnosis();
  }
}

void Coordinator::add_contribution(int rank, const Message& message) {
  if (failure_) return;
  auto contribution = parse_contribution(message);
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
    round->timer.expires_after(round->timeout());
    round->timer.async_wait([this, name](const asio::error_code& error) {
      auto const late = rounds_.find(name);
      if (!error && late != rounds_.end() && !failure_ && !late_rank_query_)
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
  if (round.is_complete()) complete_round(name, round);
}

void Coordinator::complete_round(const std::string& name, GatherRound& round) {
  auto const done = round.result(name);
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
    log::warn(fmt::format("{} waits: {}", name, describe_missing(*found->second, waited)));
    schedule_round_warning(name, 2 * waited);
  });
}

std::string Coordinator::describe_missing(const GatherRound& round, std::chrono::milliseconds waited) const {
  auto const missing = round.missing();
  std::vector<int> absent;
  std::copy_if(missing.begin(), missing.end(), std::back_inserter(absent),
               [&](int rank) { return rank != 0 && !ever_connected_.contains(rank); });
  auto text = describe_ranks(roster_, missing);
  if (!absent.empty()) {
    text += absent.size() == missing.size() ? ", never connected to rank 0"
                                            : fmt::format(", of which {} never connected", absent.size());
  }
  return fmt::format("{} of {} ranks missing after {}: {}", missing.size(), round.members().size(),
                     format_duration(waited), text);
}

void Coordinator::on_round_timeout(const std::string& name, const GatherRound& round) {
  Failure const failure{ErrorCode::deadline, round.lowest_arrived(),
                        name + ": " + describe_missing(round, round.timeout())};
  auto const missing = round.missing();
  std::vector<int> connected;
  std::copy_if(missing.begin(), missing.end(), std::back_inserter(connected),
               [&](int rank) { return rank == 0 || ever_connected_.contains(rank); });
  if (connected.empty()) return fail(failure);
  timeout_failure_ = failure;
  late_rank_query_ = std::make_unique<LateRankQuery>(io_, connected, [this] { report_late_ranks(); });
  send(connected, LateRankQuery::query_message());
}

void Coordinator::report_late_ranks() {
  if (!late_rank_query_ || failure_) return;
  auto const query = std::move(late_rank_query_);
  timeout_failure_.text += query->text();
  fail(timeout_failure_);
}

void Coordinator::start_stall_diagnosis(int rank, const Message& message) {
  bool const warning = message.value("warning", false);
  if (failure_ || (stall_diagnosis_ && (warning || !stall_diagnosis_->is_warning()))) return;
  if (warning && !is_new_warning(message)) return;
  auto queried = decode_ranks(message.at("members"), static_cast<int>(roster_.size()));
  stall_diagnosis_ = std::make_unique<StallDiagnosis>(io_, rank, message, std::move(queried),
                                                      [this] { finish_stall_diagnosis(); });
  auto const members = stall_diagnosis_->members();
  send(members, stall_diagnosis_->query_message());
}

void Coordinator::finish_stall_diagnosis() {
  if (!stall_diagnosis_ || failure_) return;
  auto const diagnosis = std::move(stall_diagnosis_);
  auto const failure = diagnosis->diagnose(roster_);
  if (!failure) return;
  // Ranks in different operations never complete them.
  if (!diagnosis->is_warning() || failure->code == ErrorCode::usage) return fail(*failure);
  log::warn(failure->text);
}

// Every member may report the same stalled operation: only the first report counts. A point-to-point message
// (number 0) has at most two reports.
bool Coordinator::is_new_warning(const Message& message) {
  auto const number = message.at("number").get<std::uint64_t>();
  auto const waited = message.at("ms").get<std::int64_t>();
  if (number == 0) return true;
  if (last_warnings_.size() > 1024) last_warnings_.clear();
  auto& last = last_warnings_[message.at("group").get<std::string>()];
  if (last.first == number && waited <= last.second) return false;
  last = {number, waited};
  return true;
}

void Coordinator::put(int rank, const Message& message) {
  auto const name = message.at("name").get<std::string>();
  if (store_.put(name, message.at("value").get_binary())) return;
  fail({ErrorCode::usage, rank,
        fmt::format("{} put '{}' into the job's store, which then holds more than {} MiB",
                    describe_rank(roster_[static_cast<std::size_t>(rank)]), name, max_store_bytes >> 20)});
}

void Coordinator::get(int rank, const Message& message) {
  auto const name = message.at("name").get<std::string>();
  std::chrono::milliseconds const wait(message.at("ms").get<std::int64_t>());
  if (store_.get(rank, name, message.at("id").get<std::uint64_t>(), wait)) return;
  fail({ErrorCode::usage, rank,
        fmt::format("{} requested '{}' from the job's store while {} of its requests already wait",
                    describe_rank(roster_[static_cast<std::size_t>(rank)]), name, max_waiters)});
}

void Coordinator::send_clocks(int rank, const Message& message) {
  auto const now = read_clocks();
  send({rank}, {{"is", "got"}, {"id", message.at("id")}, {"system", now.system}, {"steady", now.steady}});
}

void Coordinator::fail(const Failure& failure) {
  if (failure_) return;
  failure_ = failure;
  log::debug("control: failure: {}", failure.text);
  auto const message = to_message(failure);
  rounds_.clear();
  stall_diagnosis_.reset();
  late_rank_query_.reset();
  store_.cancel_waiters();
  std::vector<int> all_ranks(roster_.size());
  std::iota(all_ranks.begin(), all_ranks.end(), 0);
  send(all_ranks, message);
}

}  // namespace muster::control
