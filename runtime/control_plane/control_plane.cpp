// SPDX-License-Identifier: Apache-2.0
#include "control_plane/control_plane.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "control_plane/rank_ranges.hpp"
#include "control_plane/gather_round.hpp"
#include "log.hpp"
#include "roster/roster.hpp"
#include "transport/connect.hpp"

namespace muster::control {
namespace {

using std::chrono::milliseconds;

// From a silence to the failure that comes of it on every rank.
constexpr milliseconds notice_time{1000};

}  // namespace

ControlPlane::ControlPlane(int rank) : rank_(rank), inbox_(rank) {}

ControlPlane::~ControlPlane() { abandon(); }

std::shared_ptr<ControlPlane> ControlPlane::listen(const Key& key) {
  std::shared_ptr<ControlPlane> plane(new ControlPlane(0));
  plane->key_ = key;
  plane->leader_ = std::make_unique<Leader>(
      plane->io_, [raw = plane.get()](const Message& message) { raw->receive(message); },
      plane->activities_.last_call());
  return plane;
}

std::uint16_t ControlPlane::port() const { return leader_ ? leader_->port() : 0; }

namespace {

// Without a host's leader every rank is its own.
ControlPlaneOptions completed(ControlPlaneOptions options) {
  if (!options.leader_of.empty()) return options;
  for (std::size_t r = 0; r < options.roster.size(); ++r) options.leader_of.push_back(static_cast<int>(r));
  return options;
}

}  // namespace

std::vector<int> ControlPlane::ranks_led() const {
  std::vector<int> ranks;
  for (int r = 0; r < static_cast<int>(options_.leader_of.size()); ++r)
    if (r != rank_ && options_.leader_of[static_cast<std::size_t>(r)] == rank_) ranks.push_back(r);
  return ranks;
}

void ControlPlane::lead(ControlPlaneOptions options) {
  options_ = completed(std::move(options));
  leader_->open(options_.roster, options_.leader_of, key_, options_.heartbeat_timeout,
                options_.stall_warning);
  start_thread();
}

std::shared_ptr<ControlPlane> ControlPlane::follow(int rank, ControlPlaneOptions options,
                                     const std::vector<std::string>& addresses, std::uint16_t port,
                                     const Key& key, const Deadline& deadline) {
  std::shared_ptr<ControlPlane> plane(new ControlPlane(rank));
  plane->options_ = completed(std::move(options));
  int const leader = plane->leader();
  auto const led = plane->ranks_led();
  // Listens before it connects: its host's ranks need not come again.
  if (!led.empty())
    plane->relay_ = std::make_unique<Relay>(plane->io_, key, rank, plane->activities_.last_call());
  auto const endpoints = leader == rank ? endpoints_of(addresses, port)
                                        : std::vector<Endpoint>{local_endpoint(local_name(key, leader))};
  auto [socket, keys] = [&] {
    try {
      return connect_to_leader(plane->io_, rank, endpoints, key, deadline);
    } catch (const Error& error) {
      // Rank 0 names who is missing; only when it may be gone itself is there something to add.
      bool const speaks =
          rank == reporter_when_rank0_lost(plane->options_.roster) && (leader == 0 || leader == rank);
      throw Error(error.code(), error.what(), !speaks);
    }
  }();
  plane->channel_ = std::make_shared<SecureChannel>(std::move(socket), keys, plane->activities_.last_call());
  ControlPlane* const raw = plane.get();
  if (plane->relay_) {
    plane->relay_->open(
        led, key, plane->options_.heartbeat_timeout,
        [raw](const Message& message) { raw->channel_->send(message); },
        [raw] { return raw->inbox_.leaving(); });
  }
  plane->channel_->start([raw](const Message& message) { raw->hear_leader(message); },
                         [raw](const std::string& reason) { raw->lose_leader(reason); },
                         plane->options_.heartbeat_timeout);
  plane->start_thread();
  return plane;
}

void ControlPlane::start_thread() {
  io_.restart();
  work_.emplace(asio::make_work_guard(io_));
  thread_ = std::thread([this] { run(); });
}

void ControlPlane::run() {
  // Goes on after an exception: rank 0 has to tell the others, and asks them to end.
  while (!io_.stopped()) {
    try {
      io_.run();
    } catch (const std::exception& error) {
      broke(error.what());
    }
  }
  inbox_.end();
}

void ControlPlane::broke(const std::string& reason) noexcept {
  Failure const failure{ErrorCode::system, rank_,
                        fmt::format("the control plane of rank {} broke: {}", rank_, reason)};
  try {
    if (leader_) leader_->fail(failure);
    if (relay_) relay_->tell_all(to_message(failure));
    if (channel_)
      channel_->send({{"is", "broken"},
                      {"code", static_cast<int>(failure.code)},
                      {"speaker", rank_},
                      {"text", failure.text}});
  } catch (const std::exception& error) {
    log::debug("control: cannot tell the others: {}", error.what());
  }
  fail(failure);
}

void ControlPlane::post(Message message) {
  asio::post(io_, [this, message = std::move(message)] {
    if (leader_) {
      leader_->handle(0, message);
    } else if (channel_) {
      channel_->send(message);
    }
  });
}

void ControlPlane::hear_leader(const Message& message) {
  if (message.at("is") != "to") return receive(message);
  auto const ranks = message.at("ranks").get<std::vector<int>>();
  if (!relay_ || relay_->hand_on(ranks, message.at("message"))) receive(message.at("message"));
}

void ControlPlane::receive(const Message& message) {
  auto const& what = message.at("is").get_ref<const std::string&>();
  if (what == "ask") return post(rank_questions_.answer_to(message));
  if (what == "told") return rank_questions_.hear(message);
  if (what == "failure") return fail(failure_from(message));
  if (what == "where")
    return post(
        activities_.here(message.at("group").get<std::string>(), message.value("number", std::uint64_t{0})));
  if (what == "whereabouts") return post({{"is", "at"}, {"text", activities_.inside()}});
  if (what == "got") return inbox_.answer(message.at("id").get<std::uint64_t>(), message);
  if (what != "done") return;
  std::vector<Blob> blobs;
  for (const auto& blob : message.at("blobs")) blobs.emplace_back(blob.get_binary());
  if (message.at("last").get<bool>()) inbox_.begin_leaving();
  inbox_.deliver(message.at("name").get<std::string>(), std::move(blobs));
}

void ControlPlane::lose_leader(const std::string& reason) {
  if (inbox_.leaving()) return;
  int const lost = leader() == rank_ ? 0 : leader();
  auto const ending = channel_->ending(reason);
  if (lost == 0) return lose_rank_0(ending);
  // Rank 0 loses it too, and says so.
  fail(make_rank_loss(options_.roster[static_cast<std::size_t>(lost)], 0, ending));
}

void ControlPlane::lose_rank_0(const DisconnectCause& ending) {
  auto const& roster = options_.roster;
  auto const failure = make_rank_loss(roster.front(), reporter_when_rank0_lost(roster), ending);
  if (relay_) relay_->tell_all(to_message(failure));
  fail(failure);
}

std::vector<Blob> ControlPlane::round(const std::string& name, const std::vector<int>* members, int root,
                               const Blob& mine, milliseconds wait, bool last,
                               const std::atomic<bool>* given_up) {
  check();
  if (members == nullptr) activities_.last_call()->enter(name.c_str(), "", 0);
  Deadline const deadline(wait);
  auto const ranks = static_cast<int>(options_.roster.size());
  post(to_message(Arrival{name, members != nullptr ? members_to_message(*members, ranks) : Message(), root,
                          deadline.length(), last, mine}));
  if (auto result = inbox_.wait_for(name, deadline.when() + leader_grace, given_up))
    return std::move(*result);
  check();
  if (given_up != nullptr && *given_up)
    throw Error(ErrorCode::usage, name + " was interrupted by its own rank");
  rank_0_does_not_answer(name, deadline.length() + leader_grace);
}

// Rank 0 keeps the time of every wait, so it may be stopped or gone. That its connections notice by its
// silence, on all ranks alike; only where they notice nothing does each rank say it for itself.
void ControlPlane::rank_0_does_not_answer(const std::string& what, milliseconds waited) {
  inbox_.wait_for_failure(options_.heartbeat_timeout + notice_time);
  check();
  throw Error(ErrorCode::deadline,
              fmt::format("{}: {} does not answer {} within {}", what,
                          bootstrap::describe_rank(options_.roster.front()), bootstrap::describe_rank(self()),
                          text_of(waited)),
              rank_ != reporter_when_rank0_lost(options_.roster));
}

std::vector<Blob> ControlPlane::gather(const std::string& name, const std::vector<int>& members, const Blob& mine,
                                milliseconds wait, const std::atomic<bool>* given_up) {
  return round(name, &members, -1, mine, wait, false, given_up);
}

Blob ControlPlane::broadcast(const std::string& name, const std::vector<int>& members, int root, const Blob& mine,
                      milliseconds wait, const std::atomic<bool>* given_up) {
  auto blobs = round(name, &members, root, rank_ == root ? mine : Blob{}, wait, false, given_up);
  if (blobs.size() != 1) throw Error(ErrorCode::system, name + ": rank 0 answered with something else");
  return std::move(blobs.front());
}

void ControlPlane::barrier(const std::string& name, milliseconds wait) {
  // Everybody gets rank 0's empty blob: the answer stays small however many ranks there are.
  round(name, nullptr, 0, {}, wait);
}

void ControlPlane::last_barrier(const std::string& name, milliseconds wait) {
  round(name, nullptr, 0, {}, wait, true);
}

void ControlPlane::put(const std::string& name, const Blob& value) {
  check();
  if (name.size() > max_key_bytes || value.size() > max_value_bytes) {
    throw Error(ErrorCode::usage,
                fmt::format("put: a name of {} bytes and a value of {} bytes; the limits are {} and {}",
                            name.size(), value.size(), max_key_bytes, max_value_bytes));
  }
  post({{"is", "put"}, {"name", name}, {"value", Message::binary(value)}});
}

std::optional<Blob> ControlPlane::get(const std::string& name, milliseconds wait) {
  auto const answer = ask({{"is", "get"}, {"name", name}, {"ms", Deadline(wait).length().count()}},
                          "get of '" + name + "'", wait);
  try {
    if (!answer.at("found").get<bool>()) return std::nullopt;
    return Blob(answer.at("value").get_binary());
  } catch (const Message::exception&) {
    throw Error(ErrorCode::system, "get of '" + name + "': rank 0 answered with something else");
  }
}

ClockReading ControlPlane::clocks_of_rank_0(milliseconds wait) {
  auto const answer = ask({{"is", "clocks"}}, "rank 0's clock", wait);
  try {
    return {answer.at("system").get<std::int64_t>(), answer.at("steady").get<std::int64_t>()};
  } catch (const Message::exception&) {
    throw Error(ErrorCode::system, "rank 0's clock: rank 0 answered with something else");
  }
}

// A question to rank 0 alone, and its answer.
Message ControlPlane::ask(Message question, const std::string& what, milliseconds wait) {
  check();
  Deadline const deadline(wait);
  auto const id = inbox_.ask();
  question["id"] = id;
  post(std::move(question));
  if (auto const answer = inbox_.wait_for(id, deadline.when() + leader_grace)) return *answer;
  check();
  rank_0_does_not_answer(what, deadline.length() + leader_grace);
}

}  // namespace muster::control
