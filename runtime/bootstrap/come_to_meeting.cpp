// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <thread>

#include "bootstrap/key_desk.hpp"
#include "bootstrap/meeting.hpp"
#include "bootstrap/missing.hpp"
#include "bootstrap/this_process.hpp"
#include "control/channel.hpp"
#include "control/connect.hpp"
#include "control/failure.hpp"
#include "log.hpp"

namespace muster::bootstrap {
namespace {

using control::Endpoint;
using control::Message;
using std::chrono::milliseconds;
using Connection = std::pair<control::Socket, control::SessionKeys>;

// How long one endpoint may take before the next is tried.
constexpr milliseconds patience{2000};
// Rank 0 keeps the time; its own clock began with its own join, and it asks the hosts who is there.
constexpr milliseconds leader_grace{5000};
// How long a rank that is not the one to speak waits for it: the launcher may end the job with the first
// process.
constexpr milliseconds silent_grace{3000};

class Comer {
 public:
  Comer(const MeetingPlan& plan, const Record& mine) : plan_(plan), mine_(mine) {}

  std::vector<Record> run(const Deadline& deadline) {
    auto connection = reach(deadline);
    channel_ = std::make_shared<control::Channel>(std::move(connection.first), connection.second);
    channel_->start([this](const Message& message) { hear(message); },
                    [this](const std::string& reason) { lost_ = reason; });
    channel_->send({{"is", "hello"}, {"size", plan_.size}, {"record", Message::binary(encode(mine_))}});
    log::debug("join: {}: hello said, waiting for {} ranks", plan_.name, plan_.size);
    auto const until = deadline.when() + leader_grace;
    auto const complete = [this] { return static_cast<int>(records_.size()) == plan_.size; };
    io_.restart();
    while (!complete() && !failure_ && !lost_ && Deadline::Clock::now() < until && !io_.stopped())
      io_.run_one_until(until);
    channel_->close();
    io_.restart();
    io_.run_for(milliseconds{1000});  // lets the cancelled handlers go
    if (failure_) throw Error(failure_->fault, failure_->text, true);
    if (!complete())
      give_up(deadline,
              lost_ ? "it ended or broke the connection (" + *lost_ + ")" : "it does not say who came");
    for (int rank = 0; rank < plan_.size; ++rank)
      if (records_[static_cast<std::size_t>(rank)].hello.rank != rank)
        throw Error(Fault::system, fmt::format("join: the hello of rank {} names another rank", rank));
    return std::move(records_);
  }

 private:
  std::vector<Endpoint> desk_endpoints(const Deadline& deadline) {
    if (!plan_.local_name.empty()) return {control::local_endpoint(plan_.local_name)};
    struct Answer {
      std::vector<asio::ip::address> addresses;
      std::string why;
    };
    // The system's resolver has time limits of its own.
    auto const answer = std::make_shared<Answer>();
    auto const done = run_bounded(
        [answer, host = plan_.leader_host] {
          asio::io_context io;
          asio::error_code error;
          for (const auto& entry : asio::ip::tcp::resolver(io).resolve(host, "", error))
            answer->addresses.push_back(entry.endpoint().address());
          answer->why = error ? error.message() : "";
          return 0;
        },
        deadline);
    if (!done || answer->addresses.empty()) {
      last_ = fmt::format("cannot find the address of {} ({})", plan_.leader_host,
                          done ? answer->why : "the resolver does not answer");
      return {};
    }
    std::vector<Endpoint> endpoints;
    for (auto const port : plan_.ports)
      for (const auto& address : answer->addresses) endpoints.push_back(control::tcp_endpoint(address, port));
    return endpoints;
  }

  Connection reach(const Deadline& deadline) {
    milliseconds rest{2};
    // All ranks ask one host: at most ten requests a millisecond, however many they are.
    milliseconds const longest_rest{std::clamp(plan_.size / 10, 20, 1000)};
    std::vector<Endpoint> endpoints;
    do {
      if (endpoints.empty()) endpoints = desk_endpoints(deadline);
      for (const auto& endpoint : endpoints) {
        if (auto connection = try_at(endpoint, Deadline(std::min(patience, deadline.remaining()))))
          return std::move(*connection);
        if (deadline.passed()) break;
      }
      std::this_thread::sleep_for(std::min(rest, deadline.remaining()));
      rest = std::min(rest * 2, longest_rest);
    } while (!deadline.passed());
    // Rank 0, if it is there, says who is missing: this rank, for example.
    if (plan_.rank != plan_.deputy) std::this_thread::sleep_for(silent_grace);
    give_up(deadline, last_);
  }

  // Strangers and other jobs may sit on any of the ports.
  std::optional<Connection> try_at(const Endpoint& endpoint, const Deadline& deadline) {
    try {
      if (!plan_.seal) return control::connect_once(io_, plan_.rank, endpoint, plan_.key, deadline);
      auto const ticket = ask_for_ticket(io_, endpoint, *plan_.seal, plan_.job, plan_.rank, deadline);
      auto const gate = control::is_local(endpoint)
                            ? control::tcp_endpoint(asio::ip::address_v4::loopback(), ticket.port)
                            : control::with_port(endpoint, ticket.port);
      return control::connect_once(io_, plan_.rank, gate, ticket.key, deadline);
    } catch (const std::exception& error) {
      last_ = fmt::format("{}: {}", control::name_of(endpoint), error.what());
      log::debug("join: {}: {}", plan_.name, last_);
      return std::nullopt;
    }
  }

  void hear(const Message& message) {
    auto const& what = message.at("is").get_ref<const std::string&>();
    if (what == "failure") failure_ = control::failure_from(message);
    if (what == "records")
      for (const auto& record : message.at("records")) records_.push_back(decode(record.get_binary()));
    if (what == "witness") {
      Message processes = Message::array();
      for (const auto& [rank, process] : processes_of_ranks(variable, plan_.name))
        processes.push_back({{"rank", rank}, {"pid", process.pid}, {"name", process.name}});
      channel_->send({{"is", "seen"}, {"processes", std::move(processes)}});
    }
  }

  [[noreturn]] void give_up(const Deadline& deadline, const std::string& why) {
    Attendance attendance{plan_.size, {}, {}, plan_.host_of, {}};
    attendance.seen_on_host[mine_.hello.host] = processes_of_ranks(variable, plan_.name);
    if (attendance.host_of.empty()) attendance.host_of.push_back(plan_.leader_host);
    throw Error(lost_ ? Fault::lost_rank : Fault::deadline,
                fmt::format("join: rank {} (host {}) cannot meet rank 0 within {}: {}; {}", plan_.rank,
                            mine_.hello.host, text_of(deadline.length()), why, stage_of(attendance, 0)),
                plan_.rank != plan_.deputy);
  }

  const MeetingPlan& plan_;
  const Record& mine_;
  asio::io_context io_;
  std::shared_ptr<control::Channel> channel_;
  std::vector<Record> records_;
  std::optional<control::Failure> failure_;
  std::optional<std::string> lost_;
  std::string last_ = "it gave no address";
};

class Meeting : public Membership {
 public:
  explicit Meeting(MeetingPlan plan) : plan_(std::move(plan)) {}
  const char* name() const noexcept override { return plan_.name; }
  int rank() const noexcept override { return plan_.rank; }
  int size() const noexcept override { return plan_.size; }
  int local_rank() const noexcept override { return plan_.local_rank; }
  std::vector<Record> exchange(const Record& mine, const Deadline& deadline) override {
    return plan_.rank == 0 ? lead_meeting(plan_, mine, deadline) : come_to_meeting(plan_, mine, deadline);
  }
  void finish() noexcept override {}

 private:
  MeetingPlan plan_;
};

}  // namespace

std::vector<Record> come_to_meeting(const MeetingPlan& plan, const Record& mine, const Deadline& deadline) {
  return Comer(plan, mine).run(deadline);
}

std::unique_ptr<Membership> meeting(MeetingPlan plan) { return std::make_unique<Meeting>(std::move(plan)); }

}  // namespace muster::bootstrap
