// SPDX-License-Identifier: Apache-2.0
#include "control/plane.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <future>

#include "bootstrap/roster.hpp"
#include "control/connect.hpp"
#include "log.hpp"

namespace muster::control {
namespace {

using std::chrono::milliseconds;

// Rank 0 keeps the time of a round and names who is missing. Only when it says nothing for this much longer
// is it silent itself.
constexpr milliseconds leader_grace{5000};
constexpr milliseconds quiet_time{500};
constexpr milliseconds departure_time{2000};
// How long what was sent may take to go out when this process ends.
constexpr milliseconds flush_time{1000};

}  // namespace

Plane::Plane(int rank) : rank_(rank) {}

Plane::~Plane() { abandon(); }

std::shared_ptr<Plane> Plane::listen(const Key& key) {
  std::shared_ptr<Plane> plane(new Plane(0));
  plane->key_ = key;
  plane->leader_ = std::make_unique<Leader>(
      plane->io_, [raw = plane.get()](const Message& message) { raw->receive(message); });
  return plane;
}

std::uint16_t Plane::port() const { return leader_ ? leader_->port() : 0; }

namespace {

// Without a host's leader every rank is its own.
PlaneOptions completed(PlaneOptions options) {
  if (!options.leader_of.empty()) return options;
  for (std::size_t r = 0; r < options.roster.size(); ++r) options.leader_of.push_back(static_cast<int>(r));
  return options;
}

}  // namespace

std::vector<int> Plane::ranks_led() const {
  std::vector<int> ranks;
  for (int r = 0; r < static_cast<int>(options_.leader_of.size()); ++r)
    if (r != rank_ && options_.leader_of[static_cast<std::size_t>(r)] == rank_) ranks.push_back(r);
  return ranks;
}

void Plane::lead(PlaneOptions options) {
  options_ = completed(std::move(options));
  leader_->open(options_.roster, options_.leader_of, key_, options_.silence);
  start_thread();
}

std::shared_ptr<Plane> Plane::follow(int rank, PlaneOptions options,
                                     const std::vector<std::string>& addresses, std::uint16_t port,
                                     const Key& key, const Deadline& deadline) {
  std::shared_ptr<Plane> plane(new Plane(rank));
  plane->options_ = completed(std::move(options));
  int const leader = plane->leader();
  auto const led = plane->ranks_led();
  // Listens before it connects: its host's ranks need not come again.
  if (!led.empty()) plane->relay_ = std::make_unique<Relay>(plane->io_, key, rank);
  auto const endpoints = leader == rank ? endpoints_of(addresses, port)
                                        : std::vector<Endpoint>{local_endpoint(local_name(key, leader))};
  auto [socket, keys] = [&] {
    try {
      return connect_to_leader(plane->io_, rank, endpoints, key, deadline);
    } catch (const Error& error) {
      // Rank 0 names who is missing; only when it may be gone itself is there something to add.
      bool const speaks = rank == plane->speaker_without_rank_0() && (leader == 0 || leader == rank);
      throw Error(error.fault(), error.what(), !speaks);
    }
  }();
  plane->channel_ = std::make_shared<Channel>(std::move(socket), keys);
  Plane* const raw = plane.get();
  if (plane->relay_) {
    plane->relay_->open(led, key, plane->options_.silence,
                        [raw](const Message& message) { raw->channel_->send(message); });
  }
  plane->channel_->start([raw](const Message& message) { raw->hear_leader(message); },
                         [raw](const std::string& reason) { raw->lose_leader(reason); },
                         plane->options_.silence);
  plane->start_thread();
  return plane;
}

void Plane::start_thread() {
  io_.restart();
  work_.emplace(asio::make_work_guard(io_));
  thread_ = std::thread([this] { run(); });
}

void Plane::run() {
  // Goes on after an exception: rank 0 has to tell the others, and asks them to end.
  while (!io_.stopped()) {
    try {
      io_.run();
    } catch (const std::exception& error) {
      broke(error.what());
    }
  }
  std::lock_guard const lock(mutex_);
  ended_ = true;
  changed_.notify_all();
}

void Plane::broke(const std::string& reason) noexcept {
  Failure const failure{Fault::system, rank_,
                        fmt::format("the control plane of rank {} broke: {}", rank_, reason)};
  try {
    if (leader_) leader_->fail(failure);
    if (relay_) relay_->tell_all(to_message(failure));
    if (channel_)
      channel_->send({{"is", "broken"},
                      {"fault", static_cast<int>(failure.fault)},
                      {"speaker", rank_},
                      {"text", failure.text}});
  } catch (const std::exception& error) {
    log::debug("control: cannot tell the others: {}", error.what());
  }
  fail(failure);
}

void Plane::post(Message message) {
  asio::post(io_, [this, message = std::move(message)] {
    if (leader_) {
      leader_->handle(0, message);
    } else if (channel_) {
      channel_->send(message);
    }
  });
}

void Plane::hear_leader(const Message& message) {
  if (message.at("is") != "to") return receive(message);
  auto const ranks = message.at("ranks").get<std::vector<int>>();
  if (!relay_ || relay_->hand_on(ranks, message.at("message"))) receive(message.at("message"));
}

void Plane::receive(const Message& message) {
  auto const& what = message.at("is").get_ref<const std::string&>();
  if (what == "failure") return fail(failure_from(message));
  if (what == "where") return answer_where(message);
  if (what == "got") {
    std::lock_guard const lock(mutex_);
    auto const found = answers_.find(message.at("id").get<std::uint64_t>());
    if (found == answers_.end()) return;  // given up
    found->second = message;
    return changed_.notify_all();
  }
  if (what != "done") return;
  std::vector<Blob> blobs;
  for (const auto& blob : message.at("blobs")) blobs.emplace_back(blob.get_binary());
  std::lock_guard const lock(mutex_);
  results_[message.at("name").get<std::string>()] = std::move(blobs);
  if (message.at("last").get<bool>()) leaving_ = true;
  changed_.notify_all();
}

void Plane::answer_where(const Message& message) {
  auto const group = message.at("group").get<std::string>();
  Message here{{"is", "here"}, {"group", group}, {"number", 0}, {"operation", ""}};
  {
    std::lock_guard const lock(mutex_);
    auto const found = activities_.find(group);
    if (auto const activity = found == activities_.end() ? nullptr : found->second.lock()) {
      here["number"] = activity->number.load();
      here["operation"] = activity->operation.load();
    }
  }
  post(std::move(here));
}

void Plane::fail(const Failure& failure) {
  std::lock_guard const lock(mutex_);
  if (failure_) return;
  failure_ = failure;
  failed_ = true;
  changed_.notify_all();
}

void Plane::lose_leader(const std::string& reason) {
  {
    std::lock_guard const lock(mutex_);
    if (leaving_) return;
  }
  int const lost = leader();
  if (lost == rank_ || lost == 0) return lose_rank_0(reason);
  // Rank 0 loses it too, and says so.
  const Hello& hello = options_.roster[static_cast<std::size_t>(lost)];
  fail({Fault::lost_rank, 0,
        fmt::format("{}, pid {}, ended or broke its connection without leaving the job ({})",
                    bootstrap::name_of_rank(hello), hello.pid, reason)});
}

// Rank 0 cannot tell the others of its own end. One of them speaks: on another host, since rank 0's may have
// gone as a whole.
int Plane::speaker_without_rank_0() const {
  auto const& roster = options_.roster;
  const Hello& lost = roster.front();
  auto const elsewhere = std::find_if(roster.begin(), roster.end(), [&](const Hello& hello) {
    return hello.host != lost.host || hello.boot_id != lost.boot_id;
  });
  return elsewhere == roster.end() ? 1 : elsewhere->rank;
}

void Plane::lose_rank_0(const std::string& reason) {
  const Hello& lost = options_.roster.front();
  Failure const failure{Fault::lost_rank, speaker_without_rank_0(),
                        fmt::format("{}, pid {}, ended or broke its connection without leaving the job ({})",
                                    bootstrap::name_of_rank(lost), lost.pid, reason)};
  if (relay_) relay_->tell_all(to_message(failure));
  fail(failure);
}

void Plane::check() const {
  std::unique_lock lock(mutex_);
  if (!failure_) return;
  auto const failure = *failure_;
  lock.unlock();
  bool const repeated = failure.speaker != rank_;
  if (repeated) std::this_thread::sleep_for(quiet_time);
  throw Error(failure.fault, failure.text, repeated);
}

std::vector<Blob> Plane::round(const std::string& name, const std::vector<int>* members, int root,
                               const Blob& mine, milliseconds wait, bool last) {
  check();
  Deadline const deadline(wait);
  Message arrival{{"is", "arrive"}, {"name", name},
                  {"root", root},   {"ms", deadline.length().count()},
                  {"last", last},   {"blob", Message::binary(mine)}};
  if (members != nullptr) arrival["members"] = *members;
  post(std::move(arrival));
  std::unique_lock lock(mutex_);
  changed_.wait_until(lock, deadline.when() + leader_grace,
                      [&] { return failure_ || results_.contains(name); });
  if (auto result = results_.extract(name)) return std::move(result.mapped());
  lock.unlock();
  check();
  throw Error(Fault::deadline,
              fmt::format("{}: {} does not answer {} within {}", name,
                          bootstrap::name_of_rank(options_.roster.front()),
                          bootstrap::name_of_rank(options_.roster[static_cast<std::size_t>(rank_)]),
                          text_of(deadline.length() + leader_grace)));
}

std::vector<Blob> Plane::gather(const std::string& name, const std::vector<int>& members, const Blob& mine,
                                milliseconds wait) {
  return round(name, &members, -1, mine, wait);
}

Blob Plane::broadcast(const std::string& name, const std::vector<int>& members, int root, const Blob& mine,
                      milliseconds wait) {
  auto blobs = round(name, &members, root, rank_ == root ? mine : Blob{}, wait);
  if (blobs.size() != 1) throw Error(Fault::system, name + ": rank 0 answered with something else");
  return std::move(blobs.front());
}

void Plane::barrier(const std::string& name, milliseconds wait) {
  // Everybody gets rank 0's empty blob: the answer stays small however many ranks there are.
  round(name, nullptr, 0, {}, wait);
}

void Plane::last_barrier(const std::string& name, milliseconds wait) {
  round(name, nullptr, 0, {}, wait, true);
}

std::shared_ptr<Activity> Plane::follow_activity(const std::string& group) {
  auto activity = std::make_shared<Activity>();
  std::lock_guard const lock(mutex_);
  std::erase_if(activities_, [](const auto& entry) { return entry.second.expired(); });
  activities_[group] = activity;
  return activity;
}

void Plane::stalled(const std::string& group, const std::vector<int>& members, std::uint64_t number,
                    const std::string& operation, milliseconds waited) {
  check();
  post({{"is", "stalled"},
        {"group", group},
        {"members", members},
        {"number", number},
        {"operation", operation},
        {"ms", waited.count()}});
  wait_for_failure();
  check();
  throw Error(Fault::deadline,
              fmt::format("{} was not done after {} on {}, and {} does not answer",
                          place_of(operation, number, group), text_of(waited),
                          bootstrap::name_of_rank(options_.roster[static_cast<std::size_t>(rank_)]),
                          bootstrap::name_of_rank(options_.roster.front())));
}

bool Plane::wait_for_failure() {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, leader_grace, [&] { return failure_.has_value(); });
}

void Plane::give_up(Fault fault, const std::string& text) {
  check();
  post({{"is", "broken"}, {"fault", static_cast<int>(fault)}, {"speaker", rank_}, {"text", text}});
  wait_for_failure();
  check();
  throw Error(fault, text);
}

void Plane::put(const std::string& name, const Blob& value) {
  check();
  if (name.size() > max_key_bytes || value.size() > max_value_bytes) {
    throw Error(Fault::usage,
                fmt::format("put: a name of {} bytes and a value of {} bytes; the limits are {} and {}",
                            name.size(), value.size(), max_key_bytes, max_value_bytes));
  }
  post({{"is", "put"}, {"name", name}, {"value", Message::binary(value)}});
}

std::optional<Blob> Plane::get(const std::string& name, milliseconds wait) {
  auto const answer =
      ask({{"is", "get"}, {"name", name}, {"ms", Deadline(wait).length().count()}}, "get of '" + name + "'", wait);
  if (!answer.at("found").get<bool>()) return std::nullopt;
  return Blob(answer.at("value").get_binary());
}

ClockReading Plane::clocks_of_rank_0(milliseconds wait) {
  auto const answer = ask({{"is", "clocks"}}, "rank 0's clock", wait);
  return {answer.at("system").get<std::int64_t>(), answer.at("steady").get<std::int64_t>()};
}

// A question to rank 0 alone, and its answer.
Message Plane::ask(Message question, const std::string& what, milliseconds wait) {
  check();
  Deadline const deadline(wait);
  std::unique_lock lock(mutex_);
  auto const id = ++questions_;
  auto const& answer = answers_[id];
  lock.unlock();
  question["id"] = id;
  post(std::move(question));
  lock.lock();
  changed_.wait_until(lock, deadline.when() + leader_grace, [&] { return failure_ || answer; });
  auto const came = std::move(answers_.extract(id).mapped());
  lock.unlock();
  if (came) return *came;
  check();
  throw Error(Fault::deadline, fmt::format("{}: {} does not answer within {}", what,
                                           bootstrap::name_of_rank(options_.roster.front()),
                                           text_of(deadline.length() + leader_grace)));
}

void Plane::leave() {
  {
    std::lock_guard const lock(mutex_);
    leaving_ = true;
  }
  if (!thread_.joinable()) return;
  Deadline const deadline(departure_time);
  if (leader_ || relay_) {
    // The others end their connections when they know that everybody arrived; ending first would look like a
    // loss to them.
    std::atomic<bool> empty{false};
    while (!empty && !deadline.passed()) {
      auto const looked = std::make_shared<std::promise<bool>>();
      auto seen = looked->get_future();
      asio::post(io_,
                 [this, looked] { looked->set_value(leader_ ? leader_->everyone_left() : relay_->empty()); });
      if (seen.wait_until(deadline.when()) == std::future_status::ready) empty = seen.get();
      if (!empty) std::this_thread::sleep_for(milliseconds{1});
    }
  }
  abandon();
}

void Plane::abandon() noexcept {
  {
    std::lock_guard const lock(mutex_);
    leaving_ = true;
  }
  if (!thread_.joinable()) return;
  asio::post(io_, [this] {
    if (leader_) leader_->close();
    if (relay_) relay_->close();
    if (channel_) channel_->close();
    work_.reset();  // the thread ends when all was sent
  });
  {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, flush_time, [&] { return ended_; });
  }
  io_.stop();
  thread_.join();
}

void Plane::abandon_for_own_reason() noexcept {
  try {
    bool over = failed();
    {
      std::lock_guard const lock(mutex_);
      over = over || leaving_ || !thread_.joinable();
    }
    if (!over) {
      const Hello& self = options_.roster[static_cast<std::size_t>(rank_)];
      post({{"is", "broken"},
            {"fault", static_cast<int>(Fault::lost_rank)},
            {"speaker", rank_},
            {"text", bootstrap::name_of_rank(self) + " left the job for a reason of its own"}});
    }
  } catch (const std::exception& error) {
    log::debug("control: cannot tell the others: {}", error.what());
  }
  abandon();
}

}  // namespace muster::control
