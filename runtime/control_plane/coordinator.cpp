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

// A rank's threads wait in one each, on each of their communicators.
constexpr std::size_t max_rounds = 4096;

}  // namespace

Leader::Leader(asio::io_context& io, ToSelf to_self, std::shared_ptr<const FlightRecorder> own)
    : io_(io),
      to_self_(std::move(to_self)),
      connections_(
          std::move(own),
          [this](int rank) {
            seen_.insert(rank);
            if (failure_) connections_.send(rank, to_message(*failure_));
          },
          [this](int rank, const Message& message) { hear(rank, message); },
          [this](int rank, const DisconnectCause& ending) { lose(rank, ending); }),
      gate_(std::make_unique<AuthenticatingAcceptor>(io)),
      port_(gate_->port()),
      store_(io, [this](int rank, const Message& message) { send({rank}, message); }) {}

void Leader::open(std::vector<Hello> roster, std::vector<int> leader_of, const Key& key,
                  std::chrono::milliseconds heartbeat_timeout, std::chrono::milliseconds stall_warning) {
  stall_warning_ = stall_warning;
  roster_ = std::move(roster);
  leader_of_ = std::move(leader_of);
  std::vector<int> leaders;
  std::vector<int> here;
  for (int rank = 1; rank < static_cast<int>(roster_.size()); ++rank) {
    int const leader = leader_of_.at(static_cast<std::size_t>(rank));
    if (leader == rank) leaders.push_back(rank);
    if (leader == 0) here.push_back(rank);
  }
  raise_fd_limit(leaders.size() + here.size());
  connections_.open(std::move(gate_), leaders, key, heartbeat_timeout);
  if (!here.empty())
    connections_.open(std::make_unique<AuthenticatingAcceptor>(io_, local_name(key, 0)), here, key, heartbeat_timeout);
}

void Leader::close() {
  connections_.close();
  rounds_.clear();
  store_.drop_questions();
  inquiry_.reset();
  whereabouts_.reset();
}

// What a connection says: about its own rank, or a leader about one of its host's.
void Leader::hear(int leader, const Message& message) {
  auto const& what = message.at("is").get_ref<const std::string&>();
  if (what != "from" && what != "came" && what != "lost") return handle(leader, message);
  auto const rank = message.at("rank").get<int>();
  if (rank < 0 || rank >= static_cast<int>(roster_.size()) ||
      leader_of_[static_cast<std::size_t>(rank)] != leader) {
    throw Error(ErrorCode::system, "a leader speaks for a rank of another host");
  }
  if (what == "from") return handle(rank, message.at("message"));
  if (what == "lost")
    return lose(rank, {message.at("how").get<std::string>(), message.at("certain").get<bool>()});
  seen_.insert(rank);
  if (failure_) send({rank}, to_message(*failure_));
}

void Leader::lose(int rank, const DisconnectCause& ending) {
  if (departing_ || failure_) return;
  fail(make_rank_loss(roster_[static_cast<std::size_t>(rank)], 0, ending));
}

// What the ranks of that host print may reach nobody any more.
void Leader::lose_launcher(int rank, const std::string& launcher) {
  if (departing_ || failure_) return;
  const Hello& hello = roster_[static_cast<std::size_t>(rank)];
  const Hello& self = roster_.front();
  bool const own = hello.host == self.host && hello.boot_id == self.boot_id;
  fail({ErrorCode::lost_rank, own ? reporter_when_rank0_lost(roster_) : 0,
        fmt::format("{}, which started {}, ended: see the log of the launcher on host {}", launcher,
                    describe_rank(hello), hello.host)});
}

// One message a host. Rank 0 last: its program may end the process as soon as it knows.
void Leader::send(const std::vector<int>& ranks, const Message& message) {
  std::map<int, std::vector<int>> by_leader;
  for (int const rank : ranks) by_leader[leader_of_[static_cast<std::size_t>(rank)]].push_back(rank);
  for (const auto& [leader, its] : by_leader) {
    if (leader == 0) continue;
    if (its.size() == 1 && its.front() == leader) {
      connections_.send(leader, message);
    } else {
      connections_.send(leader, {{"is", "to"}, {"ranks", its}, {"message", message}});
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
  if (self) to_self_(message);
}

void Leader::handle(int rank, const Message& message) {
  auto const& what = message.at("is").get_ref<const std::string&>();
  if (what == "arrive") return arrive(rank, message);
  if (what == "ask" || what == "told") return pass_on(rank, message);
  if (what == "stalled") return inquire(rank, message);
  if (what == "put") return put(rank, message);
  if (what == "get") return get(rank, message);
  if (what == "clocks") return tell_clocks(rank, message);
  if (what == "orphaned") return lose_launcher(rank, message.at("launcher").get<std::string>());
  if (what == "broken") {
    auto failure = failure_from(message);
    failure.speaker = rank;
    return fail(failure);
  }
  if (what == "at" && whereabouts_) {
    whereabouts_->hear(rank, message);
    if (whereabouts_->complete()) name_the_late();
  }
  if (what == "here" && inquiry_) {
    inquiry_->hear(rank, message);
    if (inquiry_->complete()) conclude();
  }
}

void Leader::arrive(int rank, const Message& message) {
  if (failure_) return;
  auto arrival = arrival_from(message);
  auto const name = arrival.name;
  auto found = rounds_.find(name);
  if (found == rounds_.end()) {
    if (rounds_.size() >= max_rounds) {
      return fail(
          {ErrorCode::usage, rank,
           fmt::format("{} came to '{}' while {} rounds are open, which others did not come to: all ranks "
                       "must make the same calls",
                       describe_rank(roster_[static_cast<std::size_t>(rank)]), name, max_rounds)});
    }
    auto round = std::make_unique<GatherRound>(io_, arrival, static_cast<int>(roster_.size()));
    round->timer.expires_after(round->length());
    round->timer.async_wait([this, name](const asio::error_code& error) {
      auto const late = rounds_.find(name);
      if (!error && late != rounds_.end() && !failure_ && !whereabouts_) miss(name, *late->second);
    });
    found = rounds_.emplace(name, std::move(round)).first;
    if (stall_warning_.count() > 0) warn_of_round(name, stall_warning_);
  }
  auto& round = *found->second;
  if (!round.take(rank, std::move(arrival))) {
    return fail({ErrorCode::usage, rank,
                 fmt::format("{} came to '{}' with other members or twice: all ranks must make the same "
                             "calls in the same order",
                             describe_rank(roster_[static_cast<std::size_t>(rank)]), name)});
  }
  if (round.complete()) complete(name, round);
}

void Leader::complete(const std::string& name, GatherRound& round) {
  auto const done = round.result(name);
  if (round.last()) departing_ = true;
  auto const members = round.members();
  rounds_.erase(name);  // before rank 0 can hear of it and begin the next round of the same name
  send(members, done);
}

// `waited`: the next time that it is said how long the round waits already.
void Leader::warn_of_round(const std::string& name, std::chrono::milliseconds waited) {
  auto& round = *rounds_.at(name);
  if (waited >= round.length()) return;
  round.warning.expires_at(round.timer.expiry() - round.length() + waited);
  round.warning.async_wait([this, name, waited](const asio::error_code& error) {
    auto const found = rounds_.find(name);
    if (error || failure_ || found == rounds_.end()) return;
    log::warn(fmt::format("{} waits: {}", name, missing_in(*found->second, waited)));
    warn_of_round(name, 2 * waited);
  });
}

std::string Leader::missing_in(const GatherRound& round, std::chrono::milliseconds waited) const {
  auto const missing = round.missing();
  std::vector<int> absent;
  std::copy_if(missing.begin(), missing.end(), std::back_inserter(absent),
               [&](int rank) { return rank != 0 && !seen_.contains(rank); });
  auto text = describe_ranks(roster_, missing);
  if (!absent.empty()) {
    text += absent.size() == missing.size() ? ", never connected to rank 0"
                                            : fmt::format(", of which {} never connected", absent.size());
  }
  return fmt::format("{} of {} ranks missing after {}: {}", missing.size(), round.members().size(),
                     text_of(waited), text);
}

void Leader::miss(const std::string& name, const GatherRound& round) {
  Failure const failure{ErrorCode::deadline, round.first_there(),
                        name + ": " + missing_in(round, round.length())};
  auto const missing = round.missing();
  std::vector<int> there;
  std::copy_if(missing.begin(), missing.end(), std::back_inserter(there),
               [&](int rank) { return rank == 0 || seen_.contains(rank); });
  if (there.empty()) return fail(failure);
  late_ = failure;
  whereabouts_ = std::make_unique<LateRankQuery>(io_, there, [this] { name_the_late(); });
  send(there, LateRankQuery::to_ask());
}

void Leader::name_the_late() {
  if (!whereabouts_ || failure_) return;
  auto const whereabouts = std::move(whereabouts_);
  late_.text += whereabouts->text();
  fail(late_);
}

void Leader::inquire(int rank, const Message& message) {
  bool const warning = message.value("warning", false);
  if (failure_ || (inquiry_ && (warning || !inquiry_->is_warning()))) return;
  if (warning && !is_new_warning(message)) return;
  auto asked = members_from(message.at("members"), static_cast<int>(roster_.size()));
  inquiry_ = std::make_unique<StallDiagnosis>(io_, rank, message, std::move(asked), [this] { conclude(); });
  auto const members = inquiry_->members();
  send(members, inquiry_->to_ask());
}

void Leader::conclude() {
  if (!inquiry_ || failure_) return;
  auto const inquiry = std::move(inquiry_);
  auto const failure = inquiry->conclusion(roster_);
  if (!failure) return;
  // Ranks in different operations never come out of them.
  if (!inquiry->is_warning() || failure->code == ErrorCode::usage) return fail(*failure);
  log::warn(failure->text);
}

// All members of a stalled operation may tell of it: the first counts. Of a message only two ranks can.
bool Leader::is_new_warning(const Message& message) {
  auto const number = message.at("number").get<std::uint64_t>();
  auto const waited = message.at("ms").get<std::int64_t>();
  if (number == 0) return true;
  if (warned_.size() > 1024) warned_.clear();
  auto& last = warned_[message.at("group").get<std::string>()];
  if (last.first == number && waited <= last.second) return false;
  last = {number, waited};
  return true;
}

void Leader::put(int rank, const Message& message) {
  auto const name = message.at("name").get<std::string>();
  if (store_.put(name, message.at("value").get_binary())) return;
  fail({ErrorCode::usage, rank,
        fmt::format("{} put '{}' into the job's store, which then holds more than {} MiB",
                    describe_rank(roster_[static_cast<std::size_t>(rank)]), name, max_store_bytes >> 20)});
}

void Leader::get(int rank, const Message& message) {
  auto const name = message.at("name").get<std::string>();
  std::chrono::milliseconds const wait(message.at("ms").get<std::int64_t>());
  if (store_.get(rank, name, message.at("id").get<std::uint64_t>(), wait)) return;
  fail({ErrorCode::usage, rank,
        fmt::format("{} asked the job's store for '{}' while {} questions of its own wait already",
                    describe_rank(roster_[static_cast<std::size_t>(rank)]), name, max_questions)});
}

void Leader::tell_clocks(int rank, const Message& message) {
  auto const now = read_clocks();
  send({rank}, {{"is", "got"}, {"id", message.at("id")}, {"system", now.system}, {"steady", now.steady}});
}

void Leader::fail(const Failure& failure) {
  if (failure_) return;
  failure_ = failure;
  log::debug("control: failure: {}", failure.text);
  auto const message = to_message(failure);
  rounds_.clear();
  inquiry_.reset();
  whereabouts_.reset();
  store_.drop_questions();
  std::vector<int> everyone(roster_.size());
  std::iota(everyone.begin(), everyone.end(), 0);
  send(everyone, message);
}

}  // namespace muster::control
