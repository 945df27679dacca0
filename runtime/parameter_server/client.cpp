// SPDX-License-Identifier: Apache-2.0
#include "parameter_server/client.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "failure/background_errors.hpp"
#include "log.hpp"
#include "parameter_server/values.hpp"
#include "transport/connect.hpp"
#include "transport/secure_channel.hpp"

namespace muster::parameter_server {
namespace {

using std::chrono::milliseconds;

// The server keeps the deadline of a wait. Without an answer for this much longer it is itself missing.
milliseconds with_grace(milliseconds deadline) { return deadline + std::min(deadline, milliseconds{5000}); }
// A lost server usually ends the job, and the job's error says more than that of the connection.
constexpr milliseconds job_error_time{2000};
constexpr milliseconds check_interval{100};
constexpr milliseconds flush_time{1000};

void check_count(const char* call, const char* what, std::size_t count) {
  if (count > max_numbers)
    throw Error(ErrorCode::usage,
                fmt::format("{}: {} {} where {} is the limit", call, count, what, max_numbers));
}

}  // namespace

Client::Client(const Layout& layout, int rank, const std::vector<ServerAddress>& servers,
               std::function<void()> check_job)
    : layout_(layout),
      servers_(servers),
      check_job_(std::move(check_job)),
      pending_(servers.size()),
      thread_([this](const std::string& why) { on_lost(-1, why); }) {
  Deadline const deadline(layout.options().deadline);
  for (std::size_t s = 0; s < servers.size(); ++s) try {
      auto const key =
          control::purpose_key(servers[s].key, control::purpose::parameter_server, static_cast<int>(s));
      auto [socket, keys] =
          control::connect_to_leader(thread_.io(), rank, servers[s].endpoints, key, deadline);
      auto const channel = std::make_shared<control::SecureChannel>(std::move(socket), keys);
      links_.push_back(std::make_shared<ServerLink>(channel));
    } catch (const Error& error) {
      check_job_();
      throw Error(ErrorCode::deadline,
                  fmt::format("parameter server: {} cannot be reached: {}", servers[s].name, error.what()));
    }
  thread_.io().restart();
  for (std::size_t s = 0; s < servers.size(); ++s)
    links_[s]->start([this, s](const std::string& reason) { on_lost(static_cast<int>(s), reason); });
  thread_.start();
}

Client::~Client() {
  control::BackgroundErrors const dropped;
  if (push_ && !has_abandoned_wait_ && std::uncaught_exceptions() == 0) try {
      flush();
    } catch (const Error& error) {
      log::debug("{}", error.what());
    }
  asio::post(thread_.io(), [this] {
    for (auto& link : std::exchange(links_, {})) link->close();
  });
  thread_.end(flush_time);
}

void Client::on_lost(int server, const std::string& reason) {
  std::lock_guard const lock(mutex_);
  if (lost_.empty())
    lost_ = server < 0 ? "parameter server: " + reason
                       : fmt::format("parameter server: the connection to {} ended: {}",
                                     servers_[static_cast<std::size_t>(server)].name, reason);
  changed_.notify_all();
}

template <typename Request>
void Client::send(int server, const std::shared_ptr<Batch>& batch, Request request, OnValues on_values) {
  request.id = ++last_id_;
  auto const s = static_cast<std::size_t>(server);
  {
    std::lock_guard const lock(mutex_);
    ++batch->left;
    ++pending_[s];
  }
  asio::post(thread_.io(), [this, s, batch, message = encode(request), id = request.id,
                            on_values = std::move(on_values)]() mutable {
    if (links_.empty()) return;
    links_[s]->send(id, std::move(message), [this, s, batch, on_values = std::move(on_values)](Reply reply) {
      on_reply(static_cast<int>(s), *batch, std::move(reply), on_values);
    });
  });
}

void Client::on_reply(int server, Batch& batch, Reply reply, const OnValues& on_values) {
  std::lock_guard const lock(mutex_);
  if (server == 0) completed_ = std::max<std::uint64_t>(completed_, reply.completed);
  if (!reply.error.empty() && !batch.error) batch.error.emplace(reply.code, reply.error);
  if (on_values && reply.error.empty() && !batch.abandoned) on_values(reply);
  batch.last = std::move(reply);
  --batch.left;
  --pending_[static_cast<std::size_t>(server)];
  changed_.notify_all();
}

// Call with the lock held. `found`: when the loss was found first.
void Client::check_lost(Clock::time_point& found) {
  if (lost_.empty()) return;
  if (found == Clock::time_point()) found = Clock::now();
  if (Clock::now() - found > job_error_time) throw Error(ErrorCode::lost_rank, lost_);
}

Reply Client::wait(const std::shared_ptr<Batch>& batch, const std::string& what, milliseconds wait) {
  Deadline const deadline(wait);
  Clock::time_point lost_since;
  std::unique_lock lock(mutex_);
  try {
    auto const is_done = [&] { return batch->left == 0 || batch->error; };
    while (!is_done()) {
      auto const soon = Clock::now() + check_interval;
      if (changed_.wait_until(lock, std::min(soon, deadline.when()), is_done)) break;
      check_lost(lost_since);
      if (deadline.passed()) throw Error(ErrorCode::deadline, describe_unanswered(what, wait));
      lock.unlock();
      check_job_();
      lock.lock();
    }
  } catch (...) {
    if (!lock.owns_lock()) lock.lock();
    batch->abandoned = has_abandoned_wait_ = true;
    throw;
  }
  batch->abandoned = batch->error.has_value();
  if (batch->error) throw Error(*batch->error);
  return batch->last;
}

// Call with the lock held.
std::string Client::describe_unanswered(const std::string& what, milliseconds wait) const {
  std::string names;
  for (std::size_t s = 0; s < servers_.size(); ++s)
    if (pending_[s] > 0) names += (names.empty() ? "" : ", ") + servers_[s].name;
  return fmt::format("parameter server: {} not answered within {} by {}", what, format_duration(wait), names);
}

template <typename Request>
Reply Client::call(Request request, const std::string& what) {
  auto const batch = std::make_shared<Batch>();
  send(0, batch, std::move(request));
  return wait(batch, what, with_grace(layout_.options().deadline));
}

std::optional<ParameterTask> Client::take(std::uint64_t last) {
  auto const reply = call(Take{0, last}, "a request for a task was");
  if (!reply.done) return std::nullopt;
  return ParameterTask{reply.clock, reply.index};
}

std::optional<std::vector<double>> Client::wait_for(std::uint64_t clock) {
  flush();
  auto const reply = call(WaitFor{0, clock + 1, layout_.options().deadline},
                          fmt::format("the wait for clock {} was", clock));
  if (!reply.done) return std::nullopt;
  return reply.sums;
}

void Client::add_sums(std::span<const double> sums) {
  check_count("add_sums", "sums", sums.size());
  call(AddSums{0, {sums.begin(), sums.end()}}, "a request was");
}

// A read that had to wait would take no time from the pull, and one that was too old would be for nothing.
void Client::prefetch(std::uint64_t clock) {
  drop_prefetched();
  prefetched_clocks_ = layout_.clocks_before(clock);
  if (layout_.is_synchronous() || prefetched_clocks_ > completed_) return;
  prefetched_.resize(layout_.size());
  prefetch_ = begin_read(0, prefetched_, prefetched_clocks_, layout_.is_bfloat16());
}

// Its replies that are still to come are not written.
void Client::drop_prefetched() {
  if (!prefetch_) return;
  std::lock_guard const lock(mutex_);
  std::exchange(prefetch_, {})->abandoned = true;
}

void Client::pull(std::uint64_t clock, std::span<float> parameters) {
  auto const before = layout_.clocks_before(clock);
  if (prefetch_ && before <= prefetched_clocks_ && parameters.size() == layout_.size()) {
    wait(std::exchange(prefetch_, {}), "a pull was", with_grace(layout_.options().deadline));
    std::copy(prefetched_.begin(), prefetched_.end(), parameters.begin());
    return;
  }
  // The reads wait on each server, but only server 0 can say who is missing.
  if (before > completed_ && !wait_for(before - 1))
    throw Error(
        ErrorCode::usage,
        fmt::format("parameter server: a pull at clock {} while a lost worker's task is to be taken: call "
                    "wait_for({}) before",
                    clock, before - 1));
  read(0, parameters, before, layout_.is_bfloat16());
}

void Client::for_each_part(std::size_t offset, std::size_t count,
                           const std::function<void(int, std::size_t, std::size_t)>& call) const {
  for (int server = 0; server < layout_.servers(); ++server) {
    auto const slice = layout_.slice(server);
    auto at = std::max<std::size_t>(offset, slice.begin);
    auto const end = std::min<std::size_t>(offset + count, slice.end);
    for (; at < end; at += max_elements) call(server, at, std::min(end - at, max_elements));
  }
}

void Client::read(std::size_t array, std::span<float> values, std::uint64_t clocks, bool is_bfloat16) {
  wait(begin_read(array, values, clocks, is_bfloat16), "a pull was", with_grace(layout_.options().deadline));
}

std::shared_ptr<Client::Batch> Client::begin_read(std::size_t array, std::span<float> values,
                                                  std::uint64_t clocks, bool is_bfloat16) {
  if (values.size() != layout_.size())
    throw Error(ErrorCode::usage,
                fmt::format("parameter server: {} values for {} parameters", values.size(), layout_.size()));
  auto batch = std::make_shared<Batch>();
  for_each_part(0, values.size(), [&](int server, std::size_t at, std::size_t count) {
    Read request{0, array, clocks, at - layout_.slice(server).begin, count, is_bfloat16};
    send(server, batch, request, [part = values.subspan(at, count), is_bfloat16](const Reply& reply) {
      decode_values(reply.payload, is_bfloat16, part);
    });
  });
  return batch;
}

void Client::write(std::size_t array, std::span<const float> values) {
  drop_prefetched();
  if (values.size() != layout_.size())
    throw Error(ErrorCode::usage,
                fmt::format("parameter server: {} values for {} parameters", values.size(), layout_.size()));
  auto const batch = std::make_shared<Batch>();
  for_each_part(0, values.size(), [&](int server, std::size_t at, std::size_t count) {
    send(server, batch,
         Write{0, array, at - layout_.slice(server).begin, encode_values(values.subspan(at, count), false)});
  });
  wait(batch, "a write was", with_grace(layout_.options().deadline));
}

void Client::begin_push(const ParameterTask& task) {
  if (pushing_) {
    if (*pushing_ == task) return;
    throw Error(ErrorCode::usage, "parameter server: a push begins before end_push() of the last one");
  }
  if (task.index >= layout_.tasks_per_clock())
    throw Error(ErrorCode::usage,
                fmt::format("parameter server: task {} of {}", task.index, layout_.tasks_per_clock()));
  flush();
  push_ = std::make_shared<Batch>();
  pushing_ = task;
}

void Client::push_part(const ParameterTask& task, std::size_t offset, std::span<const float> gradient) {
  if (offset > layout_.size() || gradient.size() > layout_.size() - offset)
    throw Error(ErrorCode::usage, fmt::format("parameter server: elements {} to {} of a gradient of {}",
                                              offset, offset + gradient.size(), layout_.size()));
  begin_push(task);
  for_each_part(offset, gradient.size(), [&](int server, std::size_t at, std::size_t count) {
    send(server, push_,
         PushPart{0, task.clock, task.index, at - layout_.slice(server).begin, layout_.is_bfloat16(),
                  encode_values(gradient.subspan(at - offset, count), layout_.is_bfloat16())});
  });
}

// Server 0 hears that the task is done once all servers have it.
void Client::end_push(const ParameterTask& task, std::span<const double> arguments,
                      std::span<const double> sums) {
  check_count("push", "arguments", arguments.size());
  check_count("push", "sums", sums.size());
  begin_push(task);
  pushing_.reset();
  auto const acknowledged = std::make_shared<int>(layout_.servers());
  TaskDone done{0, task.clock, task.index, {sums.begin(), sums.end()}};
  done.id = ++last_id_;
  {
    std::lock_guard const lock(mutex_);
    ++push_->left;
    ++pending_[0];
  }
  for (int server = 0; server < layout_.servers(); ++server) {
    send(server, push_, PushEnd{0, task.clock, task.index, {arguments.begin(), arguments.end()}},
         [this, acknowledged, batch = push_, done](const Reply&) {
           if (--*acknowledged > 0) return;
           links_[0]->send(done.id, encode(done),
                           [this, batch](Reply reply) { on_reply(0, *batch, std::move(reply), {}); });
         });
  }
}

void Client::flush() {
  if (!push_) return;
  auto const batch = push_;
  wait(batch, "a push was", with_grace(layout_.options().deadline));
  push_.reset();
}

}  // namespace muster::parameter_server
