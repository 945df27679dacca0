// SPDX-License-Identifier: Apache-2.0
#include "control_plane/control_plane.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "control_plane/leader_connection.hpp"
#include "control_plane/rank_ranges.hpp"
#include "log.hpp"
#include "roster/roster.hpp"
#include "transport/secure_channel.hpp"

namespace muster::control {
namespace {

using std::chrono::milliseconds;

// From a heartbeat timeout to the failure that it causes on every rank.
constexpr milliseconds failure_propagation_time{1000};
// How long leave() waits at least for this host's ranks to disconnect.
constexpr milliseconds shutdown_timeout{2000};

}  // namespace

ControlPlane::ControlPlane(int rank) : rank_(rank), mailbox_(rank) { register_handlers(); }

ControlPlane::~ControlPlane() { abort_connections(); }

std::shared_ptr<ControlPlane> ControlPlane::listen(const Key& key) {
  std::shared_ptr<ControlPlane> plane(new ControlPlane(0));
  plane->key_ = key;
  plane->acceptor_ = std::make_unique<AuthenticatingAcceptor>(plane->thread_.io());
  plane->port_ = plane->acceptor_->port();
  return plane;
}

void ControlPlane::set_options(ControlPlaneOptions options) {
  options_ = with_default_leaders(std::move(options));
  watchdog_.pause(options_.watchdog_paused);
}

void ControlPlane::start_coordinator(ControlPlaneOptions options) {
  set_options(std::move(options));
  coordinator_ = std::make_unique<Coordinator>(
      thread_.io(), [this](const Message& message) { handlers_.dispatch(message); }, options_.roster,
      options_.host_leaders, options_.heartbeat_timeout, options_.stall_warning,
      operation_tracker_.flight_recorder());
  if (acceptor_) coordinator_->open(std::move(acceptor_), options_.listener.get(), key_, options_.host_key);
  options_.listener.reset();
  if (options_.watches_ended_ranks) coordinator_->watch_ended_ranks(options_.query_processes);
  thread_.start();
}

std::shared_ptr<ControlPlane> ControlPlane::connect(int rank, ControlPlaneOptions options,
                                                    const std::vector<std::string>& addresses,
                                                    std::uint16_t port, const Key& key,
                                                    const Deadline& deadline) {
  std::shared_ptr<ControlPlane> plane(new ControlPlane(rank));
  plane->set_options(std::move(options));
  auto& io = plane->thread_.io();
  auto [socket, keys] = connect_to_own_leader(io, rank, plane->options_, addresses, port, key, deadline);
  plane->start_relay();
  if (plane->relay_)
    plane->relay_->open(std::make_unique<AuthenticatingAcceptor>(io, *plane->options_.listener),
                        plane->options_.host_key);
  plane->options_.listener.reset();
  plane->options_.before_retry = nullptr;
  plane->start_channel(
      std::make_shared<SecureChannel>(std::move(socket), keys, plane->operation_tracker_.flight_recorder()));
  return plane;
}

std::shared_ptr<ControlPlane> ControlPlane::alone(ControlPlaneOptions options) {
  std::shared_ptr<ControlPlane> plane(new ControlPlane(0));
  plane->start_coordinator(std::move(options));
  return plane;
}

std::shared_ptr<ControlPlane> ControlPlane::simulate(int rank, ControlPlaneOptions options,
                                                     std::shared_ptr<Channel> to_leader) {
  if (rank == 0) return alone(std::move(options));
  std::shared_ptr<ControlPlane> plane(new ControlPlane(rank));
  plane->set_options(std::move(options));
  plane->start_relay();
  plane->start_channel(std::move(to_leader));
  return plane;
}

void ControlPlane::admit(int rank, std::shared_ptr<Channel> channel) {
  if (coordinator_) return coordinator_->admit(rank, std::move(channel));
  if (relay_) relay_->admit(rank, std::move(channel));
}

// Does nothing on a rank that leads no other.
void ControlPlane::start_relay() {
  auto ranks = options_.ranks_led_by(rank_);
  if (ranks.empty()) return;
  relay_ = std::make_unique<Relay>(
      rank_, std::move(ranks), options_.heartbeat_timeout, operation_tracker_.flight_recorder(),
      [this](const Message& message) { channel_->send(message); }, [this] { return mailbox_.leaving(); });
}

void ControlPlane::start_channel(std::shared_ptr<Channel> channel) {
  channel_ = std::move(channel);
  channel_->start([this](const Message& message) { on_leader_message(message); },
                  [this](const std::string& reason) { on_leader_disconnect(reason); },
                  options_.heartbeat_timeout);
  thread_.start();
}

void ControlPlane::on_thread_error(const std::string& reason) noexcept {
  Failure const failure{ErrorCode::system, rank_,
                        fmt::format("the control plane of rank {} failed: {}", rank_, reason)};
  try {
    if (coordinator_) coordinator_->fail(failure);
    if (relay_) relay_->broadcast(encode(failure));
    if (channel_) channel_->send(encode(protocol::FailureReport{failure.code, failure.text}));
  } catch (const std::exception& error) {
    log::debug("control: cannot send the failure to the other ranks: {}", error.what());
  }
  fail(failure, {});
}

void ControlPlane::post(Message message) {
  asio::post(thread_.io(), [this, message = std::move(message)] {
    if (coordinator_) {
      coordinator_->handle(0, message);
    } else if (channel_) {
      channel_->send(message);
    }
  });
}

void ControlPlane::on_leader_message(const Message& message) {
  if (protocol::type_of(message) != protocol::ToRanks::type) {
    handlers_.dispatch(message);
  } else if (!relay_ || relay_->forward(message.at("ranks").get<std::vector<int>>(), message.at("message"))) {
    handlers_.dispatch(message.at("message"));
  }
}

void ControlPlane::register_handlers() {
  using namespace protocol;
  handlers_.on<RpcRequest>([this](const RpcRequest& request) { post(encode(rpc_.handle_request(request))); });
  handlers_.on<RpcResponse>([this](const RpcResponse& response) { rpc_.on_response(response); });
  handlers_.on<Failure>([this](const Failure& failure) {
    // Rank 0 lives, unless a host leader sends that it is lost: perhaps after a silence.
    bool const rank0_is_lost = failure.lost == 0;
    fail(failure, {rank0_is_lost && !failure.confirmed_dead, rank0_is_lost});
  });
  handlers_.on<RanksLost>([this](const RanksLost& lost) { lost_.add(lost.ranks); });
  handlers_.on<RankStateQuery>(
      [this](const RankStateQuery& query) { post(encode(operation_tracker_.rank_state(query))); });
  handlers_.on<Response>(
      [this](const Response& response) { mailbox_.on_response(response.id, response.body); });
  handlers_.on<RoundResult>([this](RoundResult result) {
    if (result.last) mailbox_.begin_leaving();
    mailbox_.complete_round(result.name, std::move(result.blobs));
  });
}

void ControlPlane::on_leader_disconnect(const std::string& reason) {
  if (mailbox_.leaving()) return;
  auto const& roster = options_.roster;
  auto const cause = channel_->disconnect_cause(reason);
  int const lost = host_leader() == rank_ ? 0 : host_leader();
  // Rank 0 notices the loss of another rank too, and reports it.
  int const reporter = lost == 0 ? reporter_when_rank0_lost(roster) : 0;
  auto const failure = make_rank_loss(roster[static_cast<std::size_t>(lost)], reporter, cause);
  if (relay_) relay_->broadcast(encode(failure));
  fail(failure, {cause.silent, true});
}

void ControlPlane::require_open(const std::string& call) const {
  check();
  if (has_left())
    throw Error(ErrorCode::usage,
                call + ": the job was left already, or has grown and has a new control plane");
}

std::vector<Blob> ControlPlane::run_round(const std::string& name, const std::vector<int>* members, int root,
                                          const Blob& mine, milliseconds wait, bool last,
                                          const std::atomic<bool>* interrupted) {
  require_open(name);
  auto const call = members == nullptr ? enter_call(name) : nullptr;
  if (call) operation_tracker_.flight_recorder()->enter(name.c_str(), "", 0);
  Deadline const deadline(wait);
  auto const ranks = static_cast<int>(options_.roster.size());
  post(encode(protocol::Contribution{name, members != nullptr ? encode_ranks(*members, ranks) : Message(),
                                     root, deadline.length(), last, mine}));
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

Blob ControlPlane::broadcast(const std::string& name, const std::vector<int>& members, int root,
                             const Blob& mine, milliseconds wait, const std::atomic<bool>* interrupted) {
  auto blobs = run_round(name, &members, root, rank_ == root ? mine : Blob{}, wait, false, interrupted);
  if (blobs.size() != 1) throw Error(ErrorCode::system, name + ": unexpected response from rank 0");
  return std::move(blobs.front());
}

void ControlPlane::put(const std::string& name, const Blob& value) {
  require_open("put of '" + name + "'");
  if (name.size() > max_key_bytes || value.size() > max_value_bytes) {
    throw Error(ErrorCode::usage,
                fmt::format("put: a name of {} bytes and a value of {} bytes; the limits are {} and {}",
                            name.size(), value.size(), max_key_bytes, max_value_bytes));
  }
  post(encode(protocol::Put{name, value}));
}

std::optional<Blob> ControlPlane::get(const std::string& name, milliseconds wait) {
  auto response = query_coordinator<protocol::Value>(protocol::Get{0, name, Deadline(wait).length()},
                                                     "get of '" + name + "'", wait);
  if (!response.found) return std::nullopt;
  return std::move(response.value);
}

std::optional<Blob> ControlPlane::apply(protocol::StoreOperation operation) {
  auto response =
      query_coordinator<protocol::Value>(std::move(operation), "an operation on the job's store", {});
  if (!response.found) return std::nullopt;
  return std::move(response.value);
}

ClockReading ControlPlane::read_rank0_clocks(milliseconds wait) {
  auto const clocks = query_coordinator<protocol::Clocks>(protocol::ReadClocks{}, "rank 0's clock", wait);
  return {clocks.system, clocks.steady};
}

// A request to rank 0 and the body of its response.
template <typename Body, typename Request>
Body ControlPlane::query_coordinator(Request request, const std::string& what, milliseconds wait) {
  require_open(what);
  Deadline const deadline(wait);
  request.id = mailbox_.begin_request();
  post(encode(request));
  if (auto const body = mailbox_.wait_for(request.id, deadline.when() + coordinator_grace)) try {
      return protocol::decode<Body>(*body);
    } catch (const Message::exception&) {
      throw Error(ErrorCode::system, what + ": unexpected response from rank 0");
    }
  check();
  fail_coordinator_unresponsive(what, deadline.length() + coordinator_grace);
}

std::vector<std::optional<Blob>> ControlPlane::query_ranks(const std::vector<int>& ranks,
                                                           const std::string& topic, const Blob& request,
                                                           milliseconds wait) {
  std::vector<std::uint64_t> ids;
  for (int const rank : ranks) {
    ids.push_back(rpc_.begin_request());
    post(encode(protocol::RpcRequest{rank_, rank, ids.back(), topic, request}));
  }
  Deadline const deadline(wait);
  std::vector<std::optional<Blob>> responses;
  for (auto const id : ids) responses.emplace_back(rpc_.wait_for_response(id, deadline.when()));
  return responses;
}

void ControlPlane::report_operation(const std::vector<int>& members, protocol::StalledOperation report) {
  report.members = encode_ranks(members, static_cast<int>(options_.roster.size()));
  post(encode(report));
}

void ControlPlane::fail_operation(const std::vector<int>& members, const protocol::StalledOperation& report) {
  check();
  report_operation(members, report);
  mailbox_.wait_for_failure(coordinator_grace);
  check();
  auto const operation = describe_operation(report.operation, report.number, report.communicator);
  if (!report.reason.empty()) throw Error(report.code, operation + " failed: " + report.reason);
  fail_coordinator_unresponsive(fmt::format("{} did not complete within {} on {}", operation,
                                            format_duration(report.waited), bootstrap::describe_rank(self())),
                                coordinator_grace);
}

void ControlPlane::fail_job(ErrorCode code, const std::string& text) {
  check();
  report_failure(code, text);
  mailbox_.wait_for_failure(coordinator_grace);
  check();
  throw Error(code, text);
}

void ControlPlane::fail(const Failure& failure, ReporterCheck::Options check) {
  bool const printed = options_.prints_losses && watchdog_.print_loss(failure);
  bool const tolerated = options_.tolerates_losses && failure.code == ErrorCode::lost_rank;
  if (options_.query_processes && !mailbox_.failed() && !mailbox_.leaving())
    reporter_check_.start(failure, options_.roster, options_.query_processes, check);
  if (!mailbox_.fail(failure, printed, tolerated) || mailbox_.leaving()) return;
  if (options_.abort_grace.count() > 0) watchdog_.start(failure, options_.abort_grace);
  if (auto const callback = std::exchange(on_failure_, nullptr)) callback();
}

void ControlPlane::on_failure(std::function<void()> callback) {
  asio::post(thread_.io(), [this, callback = std::move(callback)]() mutable {
    failed() ? callback() : void(on_failure_ = std::move(callback));
  });
}

void ControlPlane::enter_phase(const char* phase) {
  operation_tracker_.flight_recorder()->enter_phase(phase);
  asio::post(thread_.io(), [this] {
    if (coordinator_) coordinator_->send_heartbeat();
    if (channel_) channel_->send_heartbeat();
  });
}

void ControlPlane::on_loss(Mailbox::OnLoss callback, milliseconds wait) {
  watchdog_.set_on_loss_time(wait);
  // Without abort_grace the watchdog does not run yet. If the loss has come already, it runs without `wait`.
  bool const starts_watchdog = wait.count() > 0 && (options_.abort_grace.count() == 0 || failed());
  auto const grace = std::max(wait, options_.abort_grace);
  mailbox_.on_loss([this, callback = std::move(callback), grace, starts_watchdog](const Failure& failure) {
    if (starts_watchdog)
      asio::post(thread_.io(), [this, failure, grace] { watchdog_.end_after(failure, grace); });
    callback(failure);
  });
}

void ControlPlane::watch_launcher(ProcessHandle launcher, const std::string& name) {
  if (!launcher) return;
  auto const text = fmt::format("{}, pid {}", name, launcher.pid());
  asio::post(thread_.io(), [this, launcher = std::move(launcher), text]() mutable {
    launcher_watch_.start(std::move(launcher), [this, text] {
      if (mailbox_.leaving()) return;
      orphaned_ = true;
      post(encode(protocol::LauncherExit{text}));
    });
  });
}

void ControlPlane::leave() {
  mailbox_.begin_leaving();
  if (thread_.running() && (coordinator_ || relay_)) {
    // The other ranks disconnect once they have the barrier's result. Before that it would look like a loss.
    asio::post(thread_.io(), [this] {
      auto const done = [this] { mailbox_.mark_disconnected(); };
      coordinator_ ? coordinator_->when_all_disconnected(done) : relay_->when_empty(done);
    });
    // A rank that is silent for longer counts as lost.
    mailbox_.wait_for_disconnects(std::max(shutdown_timeout, options_.heartbeat_timeout));
  }
  abort_connections();
}

void ControlPlane::abort_connections() noexcept {
  mailbox_.begin_leaving();
  if (!thread_.running()) return;
  asio::post(thread_.io(), [this] {
    if (coordinator_) coordinator_->close();
    if (relay_) relay_->close();
    if (channel_) channel_->close();
    watchdog_.stop();
    reporter_check_.stop();
    launcher_watch_.stop();
  });
  thread_.end_when_sent(weak_from_this().lock(), options_.heartbeat_timeout);
}

void ControlPlane::abort_because(const std::string& reason) noexcept {
  try {
    if (!failed() && !mailbox_.leaving() && thread_.running()) {
      mailbox_.begin_leaving();  // the program prints the error
      auto const text = reason.empty()
                            ? bootstrap::describe_rank(self()) + " left the job for a reason of its own"
                            : reason;
      post(encode(protocol::FailureReport{ErrorCode::lost_rank, text}));
      // Rank 0's failure does not reach this host's ranks once their leader has closed its connections.
      asio::post(thread_.io(), [this, failure = encode(Failure{ErrorCode::lost_rank, rank_, text})] {
        if (relay_) relay_->broadcast(failure);
      });
    }
  } catch (const std::exception& error) {
    log::debug("control: cannot send the failure to the other ranks: {}", error.what());
  }
  abort_connections();
}

}  // namespace muster::control
