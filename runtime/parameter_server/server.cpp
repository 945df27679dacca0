// SPDX-License-Identifier: Apache-2.0
#include "parameter_server/server.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "deadline.hpp"
#include "log.hpp"
#include "parameter_server/values.hpp"
#include "transport/secure_channel.hpp"

namespace muster::parameter_server {
namespace {

using std::chrono::milliseconds;

// A client that is connected has its replies by then.
constexpr milliseconds reply_time{1000};

void check_count(const std::vector<double>& numbers) {
  if (numbers.size() > max_numbers)
    throw Error(ErrorCode::system, fmt::format("{} numbers in a message", numbers.size()));
}

}  // namespace

Server::Server(const Layout& layout, int server, std::vector<std::span<float>> arrays,
               ParameterServer::Update update, DescribeRank describe_rank)
    : layout_(layout),
      slice_(layout.slice(server)),
      arrays_(std::move(arrays)),
      describe_rank_(std::move(describe_rank)),
      updates_(layout.tasks_per_clock(), layout.is_synchronous(), std::move(update)),
      key_(control::random_key()) {
  auto const workers = layout.workers();
  workers_ = {workers.begin(), workers.end()};
  if (server == 0)
    pool_.emplace(layout.tasks_per_clock(), layout.options().deals_tasks ? std::vector<int>{} : workers);
  register_handlers();
  acceptor_ = std::make_unique<control::AuthenticatingAcceptor>(thread_.io());
  port_ = acceptor_->port();
  auto const ranks = layout.first_worker() + static_cast<int>(workers.size());
  acceptor_->open(
      ranks, [ranks](std::uint32_t rank) { return rank < static_cast<std::uint32_t>(ranks); },
      control::purpose_key(key_, control::purpose::parameter_server, server),
      [this](int rank, control::Socket socket, const control::SessionKeys& keys) {
        admit(rank, std::move(socket), keys);
      });
  thread_.start();
}

Server::~Server() {
  asio::post(thread_.io(), [this] {
    acceptor_->close();
    waiting_ranks_.clear();
    for (auto& [rank, channel] : std::exchange(channels_, {})) channel->close();
  });
  thread_.end(reply_time);
}

std::string Server::error() const {
  std::lock_guard const lock(mutex_);
  return error_;
}

void Server::check() const {
  if (auto const why = error(); !why.empty()) throw Error(ErrorCode::system, why);
}

// What the update function threw. The clients get it as the reply to everything from now on.
void Server::fail(const std::string& why) noexcept try {
  std::lock_guard const lock(mutex_);
  if (error_.empty()) error_ = "parameter server: " + why;
} catch (const std::exception&) {
}

void Server::run_updates(const std::function<void()>& run) {
  if (!error().empty()) return;
  try {
    run();
  } catch (const std::exception& thrown) {
    fail(thrown.what());
  } catch (...) {
    fail("the update function threw an exception that is no std::exception");
  }
}

void Server::admit(int rank, control::Socket socket, const control::SessionKeys& keys) {
  if (auto const old = channels_.extract(rank)) old.mapped()->close();
  auto const channel = std::make_shared<control::SecureChannel>(std::move(socket), keys);
  channels_.emplace(rank, channel);
  channel->start([this, rank](const Message& message) { on_message(rank, message); },
                 [this, rank](const std::string& reason) { on_disconnect(rank, reason); });
}

void Server::register_handlers() {
  handlers_.on<Take>([this](int rank, const Take& request) { take(rank, request); });
  handlers_.on<Read>([this](int rank, const Read& request) { read(rank, request); });
  handlers_.on<Write>([this](int rank, const Write& request) { write(rank, request); });
  handlers_.on<PushPart>([this](int rank, const PushPart& request) { add_part(rank, request); });
  handlers_.on<PushEnd>([this](int rank, const PushEnd& request) { end_push(rank, request); });
  handlers_.on<TaskDone>([this](int rank, const TaskDone& request) {
    check_count(request.sums);
    pool().complete(rank, {request.clock, request.index}, request.sums);
    reply(rank, {request.id});
    answer_waiting();
  });
  handlers_.on<AddSums>([this](int rank, const AddSums& request) {
    check_count(request.sums);
    pool().add_sums(request.sums);
    reply(rank, {request.id});
  });
  handlers_.on<WaitFor>([this](int rank, const WaitFor& request) { wait_for(rank, request); });
  handlers_.on<Leave>([this](int rank, const Leave&) {
    if (auto const channel = channels_.extract(rank)) channel.mapped()->close();
    remove_worker(rank);
  });
}

// What it throws for an invalid message closes the connection.
void Server::on_message(int rank, const Message& message) {
  if (reply_error(rank, message.at("id").get<std::uint64_t>())) return;
  if (!handlers_.dispatch(rank, message)) throw Error(ErrorCode::system, "a message of an unknown type");
}

void Server::on_disconnect(int rank, const std::string& reason) {
  log::debug("parameter server: {} disconnected: {}", describe_rank_(rank), reason);
  channels_.erase(rank);
  remove_worker(rank);
}

void Server::remove_worker(int rank) {
  assemblies_.erase(rank);
  waiting_reads_.remove_if([rank](const WaitingRead& read) { return read.rank == rank; });
  waiting_ranks_.remove_if([rank](const WaitingRank& waiting) { return waiting.rank == rank; });
  if (workers_.erase(rank) == 0) return;
  if (!layout_.options().deals_tasks)
    run_updates([&] { updates_.leave_out(static_cast<std::uint64_t>(rank - layout_.first_worker())); });
  if (pool_) pool_->remove_worker(rank);
  answer_waiting();
}

void Server::reply(int rank, Reply message) {
  if (pool_) message.completed = pool_->completed();
  auto const found = channels_.find(rank);
  if (found == channels_.end()) return;
  auto const channel = found->second;  // disconnecting removes it from the map
  channel->send(encode(message));
}

bool Server::reply_error(int rank, std::uint64_t id) {
  Reply failed{id};
  failed.error = error();
  if (failed.error.empty()) return false;
  reply(rank, std::move(failed));
  return true;
}

TaskPool& Server::pool() {
  if (!pool_) throw Error(ErrorCode::system, "only server 0 knows the tasks");
  return *pool_;
}

void Server::take(int rank, const Take& request) {
  if (!workers_.contains(rank)) throw Error(ErrorCode::system, "a rank that is no worker takes a task");
  auto const task = pool().take(rank, request.last);
  Reply message{request.id, task.has_value()};
  if (task) {
    message.clock = task->clock;
    message.index = task->index;
  }
  reply(rank, std::move(message));
}

std::span<float> Server::part(std::uint64_t array, std::uint64_t offset, std::uint64_t count) {
  if (array >= arrays_.size() || count > max_elements || offset > arrays_[array].size() ||
      count > arrays_[array].size() - offset)
    throw Error(ErrorCode::system,
                fmt::format("elements {} to {} of array {}", offset, offset + count, array));
  return arrays_[array].subspan(offset, count);
}

void Server::read(int rank, const Read& request) {
  part(request.array, request.offset, request.count);
  if (updates_.completed() >= request.clocks) return send_values(rank, request);
  waiting_reads_.push_back({rank, request});
}

void Server::send_values(int rank, const Read& request) {
  Reply message{request.id};
  message.payload = encode_values(part(request.array, request.offset, request.count), request.is_bfloat16);
  reply(rank, std::move(message));
}

void Server::write(int rank, const Write& request) {
  decode_values(request.payload, false,
                part(request.array, request.offset, request.payload.size() / sizeof(float)));
  reply(rank, {request.id});
}

void Server::add_part(int rank, const PushPart& request) {
  if (!workers_.contains(rank)) throw Error(ErrorCode::system, "a rank that is no worker pushes a gradient");
  auto& assembly = assemblies_[rank];
  ParameterTask const task{request.clock, request.index};
  if (assembly.gradient.empty() || !(assembly.task == task)) {
    assembly.task = task;
    assembly.received = 0;
    assembly.gradient.resize(slice_.count());
  }
  auto const count = request.payload.size() / (request.is_bfloat16 ? sizeof(bfloat16) : sizeof(float));
  auto const size = assembly.gradient.size();
  if (request.offset > size || count > size - request.offset)
    throw Error(ErrorCode::system, fmt::format("elements {} to {} of a gradient of {}", request.offset,
                                               request.offset + count, size));
  decode_values(request.payload, request.is_bfloat16,
                std::span(assembly.gradient).subspan(request.offset, count));
  assembly.received += count;
  reply(rank, {request.id});
}

void Server::end_push(int rank, const PushEnd& request) {
  check_count(request.arguments);
  ParameterTask const task{request.clock, request.index};
  auto assembly = std::exchange(assemblies_[rank], {});
  if (slice_.count() > 0 && (!(assembly.task == task) || assembly.received != slice_.count()))
    throw Error(ErrorCode::system,
                fmt::format("a gradient of {} elements instead of {}", assembly.received, slice_.count()));
  updates_.check(task);
  run_updates([&] { updates_.add(task, std::move(assembly.gradient), request.arguments); });
  if (!reply_error(rank, request.id)) reply(rank, {request.id});
  answer_waiting();
}

void Server::wait_for(int rank, const WaitFor& request) {
  pool();
  auto& waiting = waiting_ranks_.emplace_back(thread_.io(), rank, request);
  if (answer(waiting)) return waiting_ranks_.pop_back();
  waiting.timer.expires_after(Deadline(request.wait).length());
  waiting.timer.async_wait([this, rank, id = request.id](const asio::error_code& cancelled) {
    if (cancelled) return;
    auto const at = std::find_if(waiting_ranks_.begin(), waiting_ranks_.end(), [&](const WaitingRank& other) {
      return other.rank == rank && other.request.id == id;
    });
    if (at == waiting_ranks_.end()) return;
    Reply late{id};
    late.error = describe_missing(at->request);
    late.code = ErrorCode::deadline;
    waiting_ranks_.erase(at);
    reply(rank, std::move(late));
  });
}

std::string Server::describe_missing(const WaitFor& request) const {
  std::vector<std::string> missing;
  for (int const rank : pool_->missing_workers()) missing.push_back(describe_rank_(rank));
  return fmt::format("parameter server: clock {} is not complete after {}: {}", pool_->completed(),
                     format_duration(request.wait),
                     missing.empty() ? "nobody has taken its tasks"
                                     : fmt::format("no gradient from {}", fmt::join(missing, ", ")));
}

void Server::add_clock_sums(std::uint64_t clock, Reply& message) const {
  if (auto const* const sums = pool_->sums(clock)) {
    message.sums = *sums;
    return;
  }
  message.error = fmt::format(
      "parameter server: a wait for clock {}, but {} are complete, and only the sums of the last {} are "
      "kept: "
      "give staleness a bound",
      clock, pool_->completed(), max_kept_sums);
  message.code = ErrorCode::usage;
}

// True when it has an answer.
bool Server::answer(const WaitingRank& waiting) {
  if (reply_error(waiting.rank, waiting.request.id)) return true;
  Reply message{waiting.request.id};
  if (pool_->completed() >= waiting.request.clocks) {
    if (waiting.request.clocks > 0) add_clock_sums(waiting.request.clocks - 1, message);
  } else if (workers_.empty()) {
    message.error = "parameter server: every worker is lost or has left";
    message.code = ErrorCode::lost_rank;
  } else if (workers_.contains(waiting.rank) && pool_->has_returned(waiting.request.clocks - 1)) {
    message.done = false;
  } else {
    return false;
  }
  reply(waiting.rank, std::move(message));
  return true;
}

void Server::answer_waiting() {
  if (pool_) waiting_ranks_.remove_if([this](const WaitingRank& waiting) { return answer(waiting); });
  auto reads = std::exchange(waiting_reads_, {});
  for (auto& read : reads) {
    if (reply_error(read.rank, read.request.id)) continue;
    if (updates_.completed() >= read.request.clocks)
      send_values(read.rank, read.request);
    else
      waiting_reads_.push_back(read);
  }
}

}  // namespace muster::parameter_server
