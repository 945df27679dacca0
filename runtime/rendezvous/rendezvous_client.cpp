// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <thread>

#include "failure/failure.hpp"
#include "launcher/local_hello.hpp"
#include "log.hpp"
#include "rendezvous/rank0_connector.hpp"
#include "rendezvous/reporter_election.hpp"
#include "rendezvous/host_leader.hpp"
#include "rendezvous/rendezvous.hpp"
#include "rendezvous/missing_ranks.hpp"
#include "rendezvous/process_report.hpp"
#include "rendezvous/failure_marker.hpp"
#include "transport/secure_channel.hpp"
#include "transport/connect.hpp"

namespace muster::bootstrap {
namespace {

using control::Message;
using std::chrono::milliseconds;

// How long one endpoint may take before the next is tried.
constexpr milliseconds host_meeting_time{2000};
// Rank 0 keeps the time; its own clock began with its own join, and it asks the hosts who is there.
constexpr milliseconds leader_grace{5000};
// How long a rank that is not the one to speak waits for it: the launcher may end the job with the first
// process.
constexpr milliseconds silent_grace{5000};
// How long the others of a host wait for its first, which finds out whether it is to speak, and how often
// they look.
constexpr milliseconds first_grace{10'000};
constexpr milliseconds between_looks{100};
constexpr milliseconds farewell_time{5000};
// How often a rank that cannot take part looks whether rank 0, which says so, is still there.
constexpr milliseconds between_words{500};
// A rank 0 that cannot lead is asked why, the first time after so long, and how long an answer may take.
constexpr milliseconds between_questions{500};
constexpr milliseconds answer_time{500};

class RendezvousClient {
 public:
  RendezvousClient(const RendezvousConfig& plan, const JoinRecord& mine) : plan_(plan), mine_(mine) {}

  std::vector<JoinRecord> run(const Deadline& deadline) {
    if (plan_.obstacle != AuthFailure::none) decline(deadline);
    auto connection = reach(deadline);
    channel_ = std::make_shared<control::SecureChannel>(std::move(connection.first), connection.second);
    channel_->start([this](const Message& message) { hear(message); },
                    [this](const std::string& reason) { lost_ = reason; });
    channel_->send({{"is", "hello"}, {"size", plan_.size}, {"record", Message::binary(encode(mine_))}});
    if (host_) open_host();
    log::debug("join: {}: hello said, waiting for {} ranks", plan_.name, plan_.size);
    auto const until = deadline.when() + leader_grace;
    auto const complete = [this] { return static_cast<int>(records_.size()) == plan_.size; };
    io_.restart();
    while (!complete() && !failure_ && !lost_ && Deadline::Clock::now() < until && !io_.stopped())
      io_.run_one_until(until);
    if (host_ && lost_ && !failure_) host_->tell({{"is", "lost"}, {"reason", *lost_}});
    if (host_) host_->close();
    channel_->close();
    io_.restart();
    io_.run_for(farewell_time);  // lets what was sent go out, and the cancelled handlers go
    if (failure_) {
      if (plan_.keeps_what_was_told) mark_failure_reported(plan_.job);
      throw Error(failure_->code, failure_->text, true);
    }
    if (!complete())
      give_up(deadline,
              lost_ ? "it ended or broke the connection (" + *lost_ + ")" : "it does not say who came");
    for (int rank = 0; rank < plan_.size; ++rank)
      if (records_[static_cast<std::size_t>(rank)].hello.rank != rank)
        throw Error(ErrorCode::system, fmt::format("join: the hello of rank {} names another rank", rank));
    return std::move(records_);
  }

 private:
  // One of each host says it, where rank 0 can hear it: the ranks of a host share its munged. All stay until
  // rank 0 has gone: the launcher may end the job, and rank 0 with it, with the first process.
  [[noreturn]] void decline(const Deadline& deadline) {
    Deadline const enough(deadline.remaining() + leader_grace);
    bool told = false;
    for (bool first = true; !enough.passed(); first = false) {
      if (!host_ && !alone_ && (host_ = HostLeader::try_first(io_, plan_)) && !first)
        break;  // who said it has gone
      if (host_ || alone_) {
        bool const heard = approach_.decline(plan_.obstacle, enough);
        if (told && !heard) break;
        if (heard && !told) approach_.obstacle_of_rank_0(Deadline(answer_time));  // which may have the same
        told = told || heard;
      }
      std::this_thread::sleep_for(told || !(host_ || alone_) ? between_words : milliseconds{50});
    }
    throw Error(ErrorCode::environment, plan_.trouble, true);
  }

  // As the host's first, to rank 0; as another, to the host's first.
  Connection reach(const Deadline& deadline) {
    milliseconds rest{2};
    // All ranks ask one host: at most ten requests a millisecond, however many they are.
    milliseconds const longest_rest{std::clamp(plan_.size / 10, 20, 1000)};
    Deadline::Clock::time_point question = Deadline::Clock::now() + between_questions;
    do {
      if (auto connection = go_once(deadline)) return std::move(*connection);
      if ((host_ || alone_) && plan_.seal && Deadline::Clock::now() > question) {
        auto const said = approach_.obstacle_of_rank_0(Deadline(std::min(answer_time, deadline.remaining())));
        if (said != AuthFailure::none) obstacle_of_rank_0_ = said;  // unproven: it may come all the same
        question = Deadline::Clock::now() + 2 * between_questions;
      }
      std::this_thread::sleep_for(std::min(rest, deadline.remaining()));
      rest = std::min(rest * 2, longest_rest);
    } while (!deadline.passed());
    give_up(deadline, approach_.last());
  }

  std::optional<Connection> go_once(const Deadline& deadline) {
    if (!host_ && !alone_) {
      host_ = HostLeader::try_first(io_, plan_, succession_);
      if (!host_) return join_host(deadline);
    }
    auto arrival = approach_.once(deadline);
    if (!arrival) return std::nullopt;
    key_ = arrival->key;
    return std::move(arrival->connection);
  }

  std::optional<Connection> join_host(const Deadline& deadline) {
    if (HostLeader::first_is_stopped(io_, plan_, succession_)) {
      log::debug("join: {}: the first of this host is stopped, another takes its place", plan_.name);
      ++succession_;
      return std::nullopt;
    }
    try {
      // Looks again in time before the deadline.
      auto const enough = std::clamp(deadline.remaining() / 4, milliseconds{100}, host_meeting_time);
      return HostLeader::join(io_, plan_, succession_, Deadline(std::min(enough, deadline.remaining())));
    } catch (const Error& error) {
      log::debug("join: {}: @{}: {}", plan_.name, plan_.host_socket, error.what());
      // Somebody else sits on the host's socket: this rank goes by itself.
      alone_ = std::string(error.what()).find("another user") != std::string::npos;
      return std::nullopt;
    }
  }

  // The ranks of the host whose first this one is speak to rank 0 through it. Between another rank's bind()
  // and its listen() the host's socket looks like a stranger's, so that two ranks are first: the second goes
  // by itself.
  void open_host() try {
    host_->open(
        key_,
        [this](int rank, const Message& message) {
          channel_->send({{"is", "from"}, {"rank", rank}, {"message", message}});
        },
        [this](int rank, const std::string& reason) {
          channel_->send({{"is", "lost"}, {"rank", rank}, {"reason", reason}});
        });
  } catch (const Error& error) {
    log::debug("join: {}: {}", plan_.name, error.what());
    host_.reset();
    alone_ = true;
  }

  void hear(const Message& message) {
    auto const& what = message.at("is").get_ref<const std::string&>();
    if (host_ && (what == "failure" || what == "records")) host_->tell(message);
    if (what == "failure") failure_ = control::failure_from(message);
    if (what == "lost" && !host_) lost_ = message.at("reason").get<std::string>();
    if (what == "records")
      for (const auto& record : message.at("records")) records_.push_back(decode(record.get_binary()));
    if (what == "witness") channel_->send(testimony_of(find_rank_processes(variable, plan_.name)));
  }

  [[noreturn]] void give_up(const Deadline& deadline, const std::string& why) {
    JoinProgress attendance;
    attendance.size = plan_.size;
    attendance.host_of = plan_.host_of;
    attendance.started_together = plan_.started_together;
    attendance.seen_on_host[mine_.hello.host] = find_rank_processes(variable, plan_.name);
    if (attendance.host_of.empty()) attendance.host_of.push_back(plan_.leader_host);
    if (obstacle_of_rank_0_ != AuthFailure::none) attendance.declined[0] = words_of(obstacle_of_rank_0_);
    auto text = fmt::format("join: rank {} (host {}) cannot meet rank 0 within {}: {}; {}", plan_.rank,
                            mine_.hello.host, text_of(deadline.length()), why, describe_rank_progress(attendance, 0));
    bool const first = speaks();
    if (succession_ > 0)
      text += fmt::format("; the first rank that came on host {} is stopped", mine_.hello.host);
    throw Error(lost_ ? ErrorCode::lost_rank : ErrorCode::deadline, text, !first);
  }

  bool speaks() {
    bool const told = plan_.keeps_what_was_told && failure_was_reported(plan_.job);  // this rank came too late to hear it
    if (!host_ && !alone_ && is_left_to_first()) return false;
    if (told || obstacle_of_rank_0_ != AuthFailure::none) {  // rank 0 says it
      std::this_thread::sleep_for(silent_grace);
      return false;
    }
    bool const first = Deputies(plan_).is_to_speak(lost_.has_value());
    if (!first) std::this_thread::sleep_for(silent_grace);
    return first;
  }

  // The host's first speaks, if it is this host's turn: this rank waits until that one has gone. One that is
  // stopped before it met rank 0 another takes the place of; rank 0 itself names one that is stopped later.
  bool is_left_to_first() {
    Deadline const enough(first_grace);
    while (!enough.passed()) {
      if (!channel_ && HostLeader::first_is_stopped(io_, plan_, succession_)) {
        host_ = HostLeader::try_first(io_, plan_, ++succession_);
        if (host_) return false;
      }
      if (HostLeader::try_first(io_, plan_, succession_)) return true;
      std::this_thread::sleep_for(between_looks);
    }
    return true;
  }

  const RendezvousConfig& plan_;
  const JoinRecord& mine_;
  asio::io_context io_;
  Rank0Connector approach_{io_, plan_};
  bool alone_ = plan_.host_socket.empty();  // goes to rank 0 by itself
  std::unique_ptr<HostLeader> host_;       // this rank is its host's first
  int succession_ = 0;                      // how many firsts were stopped
  control::Key key_{};
  AuthFailure obstacle_of_rank_0_ = AuthFailure::none;
  std::shared_ptr<control::SecureChannel> channel_;
  std::vector<JoinRecord> records_;
  std::optional<control::Failure> failure_;
  std::optional<std::string> lost_;
};

class RendezvousBootstrap : public Bootstrap {
 public:
  explicit RendezvousBootstrap(RendezvousConfig plan) : plan_(std::move(plan)) {}
  const char* name() const noexcept override { return plan_.name; }
  int rank() const noexcept override { return plan_.rank; }
  int size() const noexcept override { return plan_.size; }
  int local_rank() const noexcept override { return plan_.local_rank; }
  std::vector<JoinRecord> exchange(const JoinRecord& mine, const Deadline& deadline) override {
    return plan_.rank == 0 ? lead_meeting(plan_, mine, deadline) : come_to_meeting(plan_, mine, deadline);
  }
  void finish() noexcept override {}

 private:
  RendezvousConfig plan_;
};

}  // namespace

std::vector<JoinRecord> come_to_meeting(const RendezvousConfig& plan, const JoinRecord& mine, const Deadline& deadline) {
  return RendezvousClient(plan, mine).run(deadline);
}

std::unique_ptr<Bootstrap> meeting(RendezvousConfig plan) { return std::make_unique<RendezvousBootstrap>(std::move(plan)); }

}  // namespace muster::bootstrap
