// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <thread>

#include "failure/failure.hpp"
#include "launcher/local_hello.hpp"
#include "log.hpp"
#include "rendezvous/host_leader.hpp"
#include "rendezvous/missing_ranks.hpp"
#include "rendezvous/process_report.hpp"
#include "rendezvous/rank0_connector.hpp"
#include "rendezvous/rendezvous.hpp"
#include "transport/connect.hpp"
#include "transport/secure_channel.hpp"

namespace muster::bootstrap {
namespace {

using control::Message;
using std::chrono::milliseconds;

// How long one attempt to join the host leader may take.
constexpr milliseconds host_join_timeout{2000};
// Rank 0 enforces the deadline. It may have started later, and then queries the hosts for their processes.
constexpr milliseconds rank0_grace{5000};
// How long a host's other ranks wait for their leader, which reports, and how often they poll.
constexpr milliseconds host_leader_grace{10'000};
// A host's ranks start at different times, so their deadlines differ. The leader stays for this long, so that
// a later rank does not become the leader and report again.
constexpr milliseconds leader_linger{3000};
constexpr milliseconds poll_interval{100};
constexpr milliseconds flush_time{5000};

class RendezvousClient {
 public:
  RendezvousClient(const RendezvousConfig& config, const JoinRecord& mine) : config_(config), mine_(mine) {}

  std::vector<JoinRecord> run(const Deadline& deadline) {
    auto connection = connect_with_retry(deadline);
    channel_ = std::make_shared<control::SecureChannel>(std::move(connection.first), connection.second);
    channel_->start([this](const Message& message) { on_message(message); },
                    [this](const std::string& reason) { disconnect_reason_ = reason; });
    channel_->send(encode(protocol::JoinHello{config_.size, encode_record(mine_)}));
    if (host_leader_) open_host_leader();
    log::debug("join: {}: hello sent, waiting for {} ranks", config_.name, config_.size);
    auto const until = deadline.when() + rank0_grace;
    auto const complete = [this] { return static_cast<int>(records_.size()) == config_.size; };
    io_.restart();
    while (!complete() && !failure_ && !disconnect_reason_ && Deadline::Clock::now() < until &&
           !io_.stopped()) {
      check_interrupt();
      io_.run_one_until(std::min(until, Deadline::Clock::now() + interrupt_interval));
    }
    if (host_leader_ && disconnect_reason_ && !failure_)
      host_leader_->broadcast(encode(protocol::Rank0Disconnected{*disconnect_reason_}));
    if (host_leader_) host_leader_->close();
    channel_->close();
    io_.restart();
    io_.run_for(flush_time);  // flushes what was sent, and runs the cancelled handlers
    if (failure_) throw Error(failure_->code, failure_->text, true);
    if (!complete())
      throw_join_failure(deadline, disconnect_reason_
                                       ? "it ended or broke the connection (" + *disconnect_reason_ + ")"
                                       : "it did not send the ranks' records");
    for (int rank = 0; rank < config_.size; ++rank)
      if (records_[static_cast<std::size_t>(rank)].hello.rank != rank)
        throw Error(ErrorCode::system, fmt::format("join: the hello of rank {} names another rank", rank));
    return std::move(records_);
  }

 private:
  void check_interrupt() const {
    if (config_.interrupted && config_.interrupted())
      throw Error(ErrorCode::lost_rank, "join: a rank of the job was lost while the job grew", true);
  }

  // A host leader connects to rank 0, the other ranks connect to their host leader.
  Connection connect_with_retry(const Deadline& deadline) {
    milliseconds backoff{2};
    // All ranks connect to one host: this keeps them to ten requests per ms, however many they are.
    milliseconds const max_backoff{std::clamp(config_.size / 10, 20, 1000)};
    do {
      if (auto connection = try_connect(deadline)) return std::move(*connection);
      check_interrupt();
      std::this_thread::sleep_for(std::min(backoff, deadline.remaining()));
      backoff = std::min(backoff * 2, max_backoff);
    } while (!deadline.passed());
    throw_join_failure(deadline, connector_.last_error());
  }

  std::optional<Connection> try_connect(const Deadline& deadline) {
    if (!host_leader_ && !direct_) {
      host_leader_ = HostLeader::try_become_leader(io_, config_);
      if (!host_leader_) return join_host_leader(deadline);
    }
    auto authenticated = connector_.try_connect(deadline);
    if (!authenticated) return std::nullopt;
    key_ = authenticated->key;
    return std::move(authenticated->connection);
  }

  std::optional<Connection> join_host_leader(const Deadline& deadline) {
    if (!HostLeader::leader_is_usable(io_, config_)) {
      log::debug("join: {}: this host's leader cannot be used, this rank connects to rank 0", config_.name);
      direct_ = true;
      return std::nullopt;
    }
    try {
      // Leaves time for further attempts before the deadline.
      auto const limit = std::clamp(deadline.remaining() / 4, milliseconds{100}, host_join_timeout);
      return HostLeader::join(io_, config_, Deadline(std::min(limit, deadline.remaining())));
    } catch (const Error& error) {
      log::debug("join: {}: @{}: {}", config_.name, config_.host_socket, error.what());
      return std::nullopt;
    }
  }

  // The host's other ranks send to rank 0 through their leader. Another rank may lead too, when strangers
  // held the host's socket for a while: the second leader then connects directly.
  void open_host_leader() try {
    host_leader_->open(
        key_,
        [this](int rank, const Message& message) {
          channel_->send(encode(protocol::FromRank{rank, message}));
        },
        [this](int rank, const std::string& reason) {
          channel_->send(encode(protocol::RankDisconnected{rank, reason, false}));
        });
  } catch (const Error& error) {
    log::debug("join: {}: {}", config_.name, error.what());
    host_leader_.reset();
    direct_ = true;
  }

  void on_message(const Message& message) {
    using namespace protocol;
    auto const& type = type_of(message);
    if (host_leader_ && (type == Failure::type || type == JoinRecords::type))
      host_leader_->broadcast(message);
    if (type == Failure::type) failure_ = decode<Failure>(message);
    if (type == Rank0Disconnected::type && !host_leader_)
      disconnect_reason_ = decode<Rank0Disconnected>(message).reason;
    if (type == JoinRecords::type)
      for (const auto& record : decode<JoinRecords>(message).records)
        records_.push_back(decode_record(record));
    if (type == ProcessQuery::type)
      channel_->send(encode(make_process_report(find_rank_processes(get_env, config_.name))));
  }

  [[noreturn]] void throw_join_failure(const Deadline& deadline, const std::string& reason) {
    JoinProgress progress;
    progress.size = config_.size;
    progress.host_of = config_.host_of;
    progress.tasks_start_together = config_.tasks_start_together;
    progress.processes_by_host[mine_.hello.host] = find_rank_processes(get_env, config_.name);
    if (progress.host_of.empty()) progress.host_of.push_back(config_.rank0_host);
    auto const text = fmt::format("join: rank {} (host {}) cannot meet rank 0 within {}: {}; {}",
                                  config_.rank, mine_.hello.host, format_duration(deadline.length()), reason,
                                  describe_rank_progress(progress, 0));
    bool const reports = host_leader_ || direct_;
    if (!reports) wait_for_host_leader();
    if (host_leader_ && !channel_ && may_share_host()) std::this_thread::sleep_for(leader_linger);
    throw Error(disconnect_reason_ ? ErrorCode::lost_rank : ErrorCode::deadline, text, !reports);
  }

  bool may_share_host() const {
    auto const& hosts = config_.host_of;
    if (static_cast<int>(hosts.size()) != config_.size) return true;
    return std::count(hosts.begin(), hosts.end(), hosts[static_cast<std::size_t>(config_.rank)]) > 1;
  }

  // Returns once the leader has gone: the launcher may end the job with the first process that ends, and the
  // leader has to report before that.
  void wait_for_host_leader() {
    for (Deadline const limit(host_leader_grace); !limit.passed(); std::this_thread::sleep_for(poll_interval))
      if (HostLeader::try_become_leader(io_, config_)) return;
  }

  const RendezvousConfig& config_;
  const JoinRecord& mine_;
  asio::io_context io_;
  Rank0Connector connector_{io_, config_};
  bool direct_ = config_.host_socket.empty();  // connects to rank 0 itself
  std::unique_ptr<HostLeader> host_leader_;    // set when this rank leads its host
  control::Key key_{};
  std::shared_ptr<control::SecureChannel> channel_;
  std::vector<JoinRecord> records_;
  std::optional<control::Failure> failure_;
  std::optional<std::string> disconnect_reason_;
};

class RendezvousBootstrap : public Bootstrap {
 public:
  explicit RendezvousBootstrap(RendezvousConfig config) : config_(std::move(config)) {}
  const char* name() const noexcept override { return config_.name; }
  int rank() const noexcept override { return config_.rank; }
  int size() const noexcept override { return config_.size; }
  int local_rank() const noexcept override { return config_.local_rank; }
  std::vector<JoinRecord> exchange(const JoinRecord& mine, const Deadline& deadline) override {
    return config_.rank == 0 ? run_rendezvous_server(config_, mine, deadline)
                             : run_rendezvous_client(config_, mine, deadline);
  }
  void finalize() noexcept override {}

 private:
  RendezvousConfig config_;
};

}  // namespace

std::vector<JoinRecord> run_rendezvous_client(const RendezvousConfig& config, const JoinRecord& mine,
                                              const Deadline& deadline) {
  return RendezvousClient(config, mine).run(deadline);
}

std::unique_ptr<Bootstrap> make_rendezvous_bootstrap(RendezvousConfig config) {
  return std::make_unique<RendezvousBootstrap>(std::move(config));
}

}  // namespace muster::bootstrap
