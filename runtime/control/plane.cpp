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

void Plane::lead(std::vector<Hello> roster) {
  roster_ = roster;
  leader_->open(std::move(roster), key_);
  start_thread();
}

std::shared_ptr<Plane> Plane::follow(int rank, std::vector<Hello> roster,
                                     const std::vector<std::string>& addresses, std::uint16_t port,
                                     const Key& key, const Deadline& deadline) {
  std::shared_ptr<Plane> plane(new Plane(rank));
  plane->roster_ = std::move(roster);
  auto [socket, keys] = connect_to_leader(plane->io_, rank, endpoints_of(addresses, port), key, deadline);
  plane->channel_ = std::make_shared<Channel>(std::move(socket), keys);
  Plane* const raw = plane.get();
  plane->channel_->start([raw](const Message& message) { raw->receive(message); },
                         [raw](const std::string& reason) { raw->lose_leader(reason); });
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
}

void Plane::broke(const std::string& reason) noexcept {
  Failure const failure{Fault::system, rank_,
                        fmt::format("the control plane of rank {} broke: {}", rank_, reason)};
  try {
    if (leader_) leader_->fail(failure);
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

void Plane::receive(const Message& message) {
  auto const& what = message.at("is").get_ref<const std::string&>();
  if (what == "failure") return fail(failure_from(message));
  if (what == "where") return answer_where(message);
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

// Rank 0 cannot tell the others of its own end. One of them speaks: on another host, since rank 0's may have
// gone as a whole.
void Plane::lose_leader(const std::string& reason) {
  {
    std::lock_guard const lock(mutex_);
    if (leaving_) return;
  }
  const Hello& lost = roster_.front();
  auto const elsewhere = std::find_if(roster_.begin(), roster_.end(), [&](const Hello& hello) {
    return hello.host != lost.host || hello.boot_id != lost.boot_id;
  });
  fail({Fault::lost_rank, elsewhere == roster_.end() ? 1 : elsewhere->rank,
        fmt::format("{}, pid {}, ended or broke its connection without leaving the job ({})",
                    bootstrap::name_of_rank(lost), lost.pid, reason)});
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
  throw Error(Fault::deadline, fmt::format("{}: {} does not answer {} within {}", name,
                                           bootstrap::name_of_rank(roster_.front()),
                                           bootstrap::name_of_rank(roster_[static_cast<std::size_t>(rank_)]),
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
  {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, leader_grace, [&] { return failure_.has_value(); });
  }
  check();
  throw Error(Fault::deadline, fmt::format("{} was not done after {} on {}, and {} does not answer",
                                           place_of(operation, number, group), text_of(waited),
                                           bootstrap::name_of_rank(roster_[static_cast<std::size_t>(rank_)]),
                                           bootstrap::name_of_rank(roster_.front())));
}

void Plane::leave() {
  {
    std::lock_guard const lock(mutex_);
    leaving_ = true;
  }
  if (!thread_.joinable()) return;
  Deadline const deadline(departure_time);
  if (leader_) {
    // The others end their connections when they know that everybody arrived; ending first would look like a
    // loss to them.
    std::atomic<bool> empty{false};
    while (!empty && !deadline.passed()) {
      auto const looked = std::make_shared<std::promise<bool>>();
      auto seen = looked->get_future();
      asio::post(io_, [this, looked] { looked->set_value(leader_->everyone_left()); });
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
  if (thread_.joinable()) {
    asio::post(io_, [this] {
      if (leader_) leader_->close();
      if (channel_) channel_->close();
      io_.stop();
    });
    thread_.join();
  }
}

}  // namespace muster::control
