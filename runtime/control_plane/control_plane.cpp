// SPDX-License-Identifier: Apache-2.0
#include "control_plane/control_plane.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "control_plane/gather_round.hpp"
#include "control_plane/rank_ranges.hpp"
#include "log.hpp"
#include "roster/roster.hpp"
#include "transport/connect.hpp"

namespace muster::control {
namespace {

using std::chrono::milliseconds;

// From a heartbeat timeout to the failure that it causes on every rank.
constexpr milliseconds failure_propagation_time{1000};

}  // namespace

ControlPlane::ControlPlane(int rank) : rank_(rank), mailbox_(rank) {}

ControlPlane::~ControlPlane() { abort_connections(); }

std::shared_ptr<ControlPlane> ControlPlane::listen(const Key& key) {
  std::shared_ptr<ControlPlane> plane(new ControlPlane(0));
  plane->key_ = key;
  plane->coordinator_ = std::make_unique<Coordinator>(
      plane->io_, [raw = plane.get()](const Message& message) { raw->receive(message); },
      plane->operation_tracker_.flight_recorder());
  return plane;
}

std::uint16_t ControlPlane::port() const { return coordinator_ ? coordinator_->port() : 0; }

namespace {

// Without host_leaders, every rank is its own leader.
ControlPlaneOptions with_default_leaders(ControlPlaneOptions options) {
  if (!options.host_leaders.empty()) return options;
  for (std::size_t r = 0; r < options.roster.size(); ++r) options.host_leaders.push_back(static_cast<int>(r));
  return options;
}

}  // namespace

std::vector<int> ControlPlane::relayed_ranks() const {
  std::vector<int> ranks;
  for (int r = 0; r < static_cast<int>(options_.host_leaders.size()); ++r)
    if (r != rank_ && options_.host_leaders[static_cast<std::size_t>(r)] == rank_) ranks.push_back(r);
  return ranks;
}

void ControlPlane::start_coordinator(ControlPlaneOptions options) {
  options_ = with_default_leaders(std::move(options));
  coordinator_->open(options_.roster, options_.host_leaders, key_, options_.heartbeat_timeout,
                     options_.stall_warning);
  start_thread();
}

std::shared_ptr<ControlPlane> ControlPlane::connect(int rank, ControlPlaneOptions options,
                                                    const std::vector<std::string>& addresses,
                                                    std::uint16_t port, const Key& key,
                                                    const Deadline& deadline) {
  std::shared_ptr<ControlPlane> plane(new ControlPlane(rank));
  plane->options_ = with_default_leaders(std::move(options));
  int const host_leader = plane->host_leader();
  auto const relayed = plane->relayed_ranks();
  // Listens before it connects, so that its host's ranks need not retry.
  if (!relayed.empty())
    plane->relay_ =
        std::make_unique<Relay>(plane->io_, key, rank, plane->operation_tracker_.flight_recorder());
  auto const endpoints = host_leader == rank
                             ? parse_endpoints(addresses, port)
                             : std::vector<Endpoint>{local_endpoint(local_name(key, host_leader))};
  auto [socket, keys] = [&] {
    try {
      return connect_to_leader(plane->io_, rank, endpoints, key, deadline);
    } catch (const Error& error) {
      // Rank 0 names the missing ranks. This rank reports only what rank 0 cannot: that rank 0 is lost.
      bool const reports = rank == reporter_when_rank0_lost(plane->options_.roster) &&
                           (host_leader == 0 || host_leader == rank);
      throw Error(error.code(), error.what(), !reports);
    }
  }();
  plane->channel_ =
      std::make_shared<SecureChannel>(std::move(socket), keys, plane->operation_tracker_.flight_recorder());
  ControlPlane* const raw = plane.get();
  if (plane->relay_) {
    plane->relay_->open(
        relayed, key, plane->options_.heartbeat_timeout,
        [raw](const Message& message) { raw->channel_->send(message); },
        [raw] { return raw->mailbox_.leaving(); });
  }
  plane->channel_->start([raw](const Message& message) { raw->on_leader_message(message); },
                         [raw](const std::string& reason) { raw->on_leader_disconnect(reason); },
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
  // Continues after an exception: rank 0 still has to send the failure to the other ranks.
  while (!io_.stopped()) {
    try {
      io_.run();
    } catch (const std::exception& error) {
      on_thread_error(error.what());
    }
  }
  mailbox_.mark_thread_ended();
}

void ControlPlane::on_thread_error(const std::string& reason) noexcept {
  Failure const failure{ErrorCode::system, rank_,
                        fmt::format("the control plane of rank {} failed: {}", rank_, reason)};
  try {
    if (coordinator_) coordinator_->fail(failure);
    if (relay_) relay_->broadcast(to_message(failure));
    if (channel_)
      channel_->send({{"is", "broken"},
                      {"code", static_cast<int>(failure.code)},
                      {"speaker", rank_},
                      {"text", failure.text}});
  } catch (const std::exception& error) {
    log::debug("control: cannot send the failure to the other ranks: {}", error.what());
  }
  fail(failure);
}

void ControlPlane::post(Message message) {
  asio::post(io_, [this, message = std::move(message)] {
    if (coordinator_) {
      coordinator_->handle(0, message);
    } else if (channel_) {
      channel_->send(message);
    }
  });
}

void ControlPlane::on_leader_message(const Message& message) {
  if (message.at("is") != "to") return receive(message);
  auto const ranks = message.at("ranks").get<std::vector<int>>();
  if (!relay_ || relay_->forward(ranks, message.at("message"))) receive(message.at("message"));
}

void ControlPlane::receive(const Message& message) {
  auto const& kind = message.at("is").get_ref<const std::string&>();
  if (kind == "ask") return post(rpc_.handle_request(message));
  if (kind == "told") return rpc_.on_response(message);
  if (kind == "failure") return fail(parse_failure(message));
  if (kind == "where")
    return post(operation_tracker_.operation_reply(message.at("group").get<std::string>(),
                                                   message.value("number", std::uint64_t{0})));
  if (kind == "whereabouts") return post({{"is", "at"}, {"text", operation_tracker_.current_wait()}});
  if (kind == "got") return mailbox_.on_response(message.at("id").get<std::uint64_t>(), message);
  if (kind != "done") return;
  std::vector<Blob> blobs;
  for (const auto& blob : message.at("blobs")) blobs.emplace_back(blob.get_binary());
  if (message.at("last").get<bool>()) mailbox_.begin_leaving();
  mailbox_.complete_round(message.at("name").get<std::string>(), std::move(blobs));
}

void ControlPlane::on_leader_disconnect(const std::string& reason) {
  if (mailbox_.leaving()) return;
  int const lost = host_leader() == rank_ ? 0 : host_leader();
  auto const cause = channel_->disconnect_cause(reason);
  if (lost == 0) return fail_rank0_lost(cause);
  // Rank 0 notices this loss too, and reports it.
  fail(make_rank_loss(options_.roster[static_cast<std::size_t>(lost)], 0, cause));
}

void ControlPlane::fail_rank0_lost(const DisconnectCause& cause) {
  auto const& roster = options_.roster;
  auto const failure = make_rank_loss(roster.front(), reporter_when_rank0_lost(roster), cause);
  if (relay_) relay_->broadcast(to_message(failure));
  fail(failure);
}

std::vector<Blob> ControlPlane::run_round(const std::string& name, const std::vector<int>* members, int root,
                                          const Blob& mine, milliseconds wait, bool last,
                                          const std::atomic<bool>* interrupted) {
  check();
  if (members == nullptr) operation_tracker_.flight_recorder()->enter(name.c_str(), "", 0);
  Deadline const deadline(wait);
  auto const ranks = static_cast<int>(options_.roster.size());
  post(to_message(Contribution{name, members != nullptr ? encode_ranks(*members, ranks) : Message(), root,
                               deadline.length(), last, mine}));
  if (auto result = mailbox_.wait_for(name, deadline.when() + coordinator_grace, interrupted))
    return std::move(*result);
  check();
  if (interrupted != nullptr && *interrupted)
    throw Error(ErrorCode::usage, name + " was interrupted by its own rank");
  fail_coordinator_unresponsive(name, deadline.length() + coordinator_grace);
}

// Rank 0 keeps the deadline of every wait, so it is probably stopped or lost. Then every rank's connection to
// it times out and all ranks get the same failure. Without that failure, each rank throws its own error.
void ControlPlane::fail_coordinator_unresponsive(const std::string& what, milliseconds waited) {
  mailbox_.wait_for_failure(options_.heartbeat_timeout + failure_propagation_time);
  check();
  throw Error(ErrorCode::deadline,
              fmt::format("{}: {} does not answer {} within {}", what,
                          bootstrap::describe_rank(options_.roster.front()), bootstrap::describe_rank(self()),
                          format_duration(waited)),
              rank_ != reporter_when_rank0_lost(options_.roster));
}

std::vector<Blob> ControlPlane::gather(const std::string& name, const std::vector<int>& members,
                                       const Blob& mine, milliseconds wait,
                                       const std::atomic<bool>* interrupted) {
  return run_round(name, &members, -1, mine, wait, false, interrupted);
}

Blob ControlPlane::broadcast(const std::string& name, const std::vector<int>& members, int root,
                             const Blob& mine, milliseconds wait, const std::atomic<bool>* interrupted) {
  auto blobs = run_round(name, &members, root, rank_ == root ? mine : Blob{}, wait, false, interrupted);
  if (blobs.size() != 1) throw Error(ErrorCode::system, name + ": unexpected response from rank 0");
  return std::move(blobs.front());
}

void ControlPlane::barrier(const std::string& name, milliseconds wait) {
  // All ranks get rank 0's empty blob: the result's size does not depend on the number of ranks.
  run_round(name, nullptr, 0, {}, wait);
}

void ControlPlane::final_barrier(const std::string& name, milliseconds wait) {
  run_round(name, nullptr, 0, {}, wait, true);
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
  auto const response =
      query_coordinator({{"is", "get"}, {"name", name}, {"ms", Deadline(wait).length().count()}},
                        "get of '" + name + "'", wait);
  try {
    if (!response.at("found").get<bool>()) return std::nullopt;
    return Blob(response.at("value").get_binary());
  } catch (const Message::exception&) {
    throw Error(ErrorCode::system, "get of '" + name + "': unexpected response from rank 0");
  }
}

ClockReading ControlPlane::read_rank0_clocks(milliseconds wait) {
  auto const response = query_coordinator({{"is", "clocks"}}, "rank 0's clock", wait);
  try {
    return {response.at("system").get<std::int64_t>(), response.at("steady").get<std::int64_t>()};
  } catch (const Message::exception&) {
    throw Error(ErrorCode::system, "rank 0's clock: unexpected response from rank 0");
  }
}

// A request to rank 0 and its response.
Message ControlPlane::query_coordinator(Message request, const std::string& what, milliseconds wait) {
  check();
  Deadline const deadline(wait);
  auto const id = mailbox_.begin_request();
  request["id"] = id;
  post(std::move(request));
  if (auto const response = mailbox_.wait_for(id, deadline.when() + coordinator_grace)) return *response;
  check();
  fail_coordinator_unresponsive(what, deadline.length() + coordinator_grace);
}

}  // namespace muster::control
