// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <thread>

#include "failure/failure.hpp"
#include "launcher/local_hello.hpp"
#include "log.hpp"
#include "rendezvous/failure_marker.hpp"
#include "rendezvous/host_leader.hpp"
#include "rendezvous/missing_ranks.hpp"
#include "rendezvous/process_report.hpp"
#include "rendezvous/rank0_connector.hpp"
#include "rendezvous/rendezvous.hpp"
#include "rendezvous/reporter_election.hpp"
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
// How long other ranks wait for the reporter: the launcher may end the job with the first process that ends.
constexpr milliseconds reporter_grace{5000};
// How long a host's other ranks wait for their leader, which runs the election, and how often they poll.
constexpr milliseconds host_leader_grace{10'000};
constexpr milliseconds poll_interval{100};
constexpr milliseconds flush_time{5000};
// How often a rank that cannot authenticate itself polls whether rank 0, which reports it, is still alive.
constexpr milliseconds auth_report_interval{500};
// When to query first whether rank 0 cannot authenticate itself, and how long an answer may take.
constexpr milliseconds auth_query_interval{500};
constexpr milliseconds auth_query_timeout{500};

class RendezvousClient {
 public:
  RendezvousClient(const RendezvousConfig& config, const JoinRecord& mine) : config_(config), mine_(mine) {}

  std::vector<JoinRecord> run(const Deadline& deadline) {
    if (config_.auth_failure != AuthFailure::none) report_own_auth_failure(deadline);
    auto connection = connect_with_retry(deadline);
    channel_ = std::make_shared<control::SecureChannel>(std::move(connection.first), connection.second);
    channel_->start([this](const Message& message) { on_message(message); },
                    [this](const std::string& reason) { disconnect_reason_ = reason; });
    channel_->send(
        {{"is", "hello"}, {"size", config_.size}, {"record", Message::binary(encode_record(mine_))}});
    if (host_leader_) open_host_leader();
    log::debug("join: {}: hello sent, waiting for {} ranks", config_.name, config_.size);
    auto const until = deadline.when() + rank0_grace;
    auto const complete = [this] { return static_cast<int>(records_.size()) == config_.size; };
    io_.restart();
    while (!complete() && !failure_ && !disconnect_reason_ && Deadline::Clock::now() < until &&
           !io_.stopped())
      io_.run_one_until(until);
    if (host_leader_ && disconnect_reason_ && !failure_)
      host_leader_->broadcast({{"is", "lost"}, {"reason", *disconnect_reason_}});
    if (host_leader_) host_leader_->close();
    channel_->close();
    io_.restart();
    io_.run_for(flush_time);  // flushes what was sent, and runs the cancelled handlers
    if (failure_) {
      if (config_.use_failure_marker) mark_failure_reported(config_.job);
      throw Error(failure_->code, failure_->text, true);
    }
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
  // One rank per host reports to rank 0, since the ranks of a host share its munged. All stay until rank 0
  // has gone: the launcher may end the job, and rank 0 with it, with the first process that ends.
  [[noreturn]] void report_own_auth_failure(const Deadline& deadline) {
    Deadline const limit(deadline.remaining() + rank0_grace);
    bool reported = false;
    for (bool first = true; !limit.passed(); first = false) {
      if (!host_leader_ && !direct_ && (host_leader_ = HostLeader::try_become_leader(io_, config_)) && !first)
        break;  // the rank that reported it has gone
      if (host_leader_ || direct_) {
        bool const reached = connector_.report_own_auth_failure(config_.auth_failure, limit);
        if (reported && !reached) break;
        if (reached && !reported)  // rank 0 may have the same failure, and then waits for one query per host
          connector_.query_rank0_auth_failure(Deadline(auth_query_timeout));
        reported = reported || reached;
      }
      std::this_thread::sleep_for(reported || !(host_leader_ || direct_) ? auth_report_interval
                                                                         : milliseconds{50});
    }
    throw Error(ErrorCode::environment, config_.auth_failure_text, true);
  }

  // A host leader connects to rank 0, the other ranks connect to their host leader.
  Connection connect_with_retry(const Deadline& deadline) {
    milliseconds backoff{2};
    // All ranks connect to one host: this keeps them to ten requests per ms, however many they are.
    milliseconds const max_backoff{std::clamp(config_.size / 10, 20, 1000)};
    Deadline::Clock::time_point next_query = Deadline::Clock::now() + auth_query_interval;
    do {
      if (auto connection = try_connect(deadline)) return std::move(*connection);
      if ((host_leader_ || direct_) && config_.codec && Deadline::Clock::now() > next_query) {
        auto const answer =
            connector_.query_rank0_auth_failure(Deadline(std::min(auth_query_timeout, deadline.remaining())));
        if (answer != AuthFailure::none)
          rank0_auth_failure_ = answer;  // unauthenticated: rank 0 may still answer
        next_query = Deadline::Clock::now() + 2 * auth_query_interval;
      }
      std::this_thread::sleep_for(std::min(backoff, deadline.remaining()));
      backoff = std::min(backoff * 2, max_backoff);
    } while (!deadline.passed());
    throw_join_failure(deadline, connector_.last_error());
  }

  std::optional<Connection> try_connect(const Deadline& deadline) {
    if (!host_leader_ && !direct_) {
      host_leader_ = HostLeader::try_become_leader(io_, config_, term_);
      if (!host_leader_) return join_host_leader(deadline);
    }
    auto authenticated = connector_.try_connect(deadline);
    if (!authenticated) return std::nullopt;
    key_ = authenticated->key;
    return std::move(authenticated->connection);
  }

  std::optional<Connection> join_host_leader(const Deadline& deadline) {
    if (HostLeader::leader_is_stopped(io_, config_, term_)) {
      log::debug("join: {}: the leader of this host is stopped, another rank takes its place", config_.name);
      ++term_;
      return std::nullopt;
    }
    try {
      // Leaves time for further attempts before the deadline.
      auto const limit = std::clamp(deadline.remaining() / 4, milliseconds{100}, host_join_timeout);
      return HostLeader::join(io_, config_, term_, Deadline(std::min(limit, deadline.remaining())));
    } catch (const Error& error) {
      log::debug("join: {}: @{}: {}", config_.name, config_.host_socket, error.what());
      // Another user holds the host's socket: this rank connects to rank 0 directly.
      direct_ = std::string(error.what()).find("another user") != std::string::npos;
      return std::nullopt;
    }
  }

  // The host's other ranks send to rank 0 through their leader. Between another rank's bind() and listen()
  // the host's socket looks like a stranger's, so two ranks may lead: the second then connects directly.
  void open_host_leader() try {
    host_leader_->open(
        key_,
        [this](int rank, const Message& message) {
          channel_->send({{"is", "from"}, {"rank", rank}, {"message", message}});
        },
        [this](int rank, const std::string& reason) {
          channel_->send({{"is", "lost"}, {"rank", rank}, {"reason", reason}});
        });
  } catch (const Error& error) {
    log::debug("join: {}: {}", config_.name, error.what());
    host_leader_.reset();
    direct_ = true;
  }

  void on_message(const Message& message) {
    auto const& kind = message.at("is").get_ref<const std::string&>();
    if (host_leader_ && (kind == "failure" || kind == "records")) host_leader_->broadcast(message);
    if (kind == "failure") failure_ = control::parse_failure(message);
    if (kind == "lost" && !host_leader_) disconnect_reason_ = message.at("reason").get<std::string>();
    if (kind == "records")
      for (const auto& record : message.at("records")) records_.push_back(decode_record(record.get_binary()));
    if (kind == "witness") channel_->send(make_process_report(find_rank_processes(get_env, config_.name)));
  }

  [[noreturn]] void throw_join_failure(const Deadline& deadline, const std::string& reason) {
    JoinProgress progress;
    progress.size = config_.size;
    progress.host_of = config_.host_of;
    progress.tasks_start_together = config_.tasks_start_together;
    progress.processes_by_host[mine_.hello.host] = find_rank_processes(get_env, config_.name);
    if (progress.host_of.empty()) progress.host_of.push_back(config_.rank0_host);
    if (rank0_auth_failure_ != AuthFailure::none) progress.auth_failures[0] = to_string(rank0_auth_failure_);
    auto text = fmt::format("join: rank {} (host {}) cannot meet rank 0 within {}: {}; {}", config_.rank,
                            mine_.hello.host, format_duration(deadline.length()), reason,
                            describe_rank_progress(progress, 0));
    bool const reports = should_report();
    if (term_ > 0) text += fmt::format("; the first rank to join on host {} is stopped", mine_.hello.host);
    throw Error(disconnect_reason_ ? ErrorCode::lost_rank : ErrorCode::deadline, text, !reports);
  }

  bool should_report() {
    bool const reported =
        config_.use_failure_marker && failure_was_reported(config_.job);  // this rank is late
    if (!host_leader_ && !direct_ && defer_to_host_leader()) return false;
    if (reported || rank0_auth_failure_ != AuthFailure::none) {  // rank 0 reports it
      std::this_thread::sleep_for(reporter_grace);
      return false;
    }
    bool const elected = ReporterElection(config_).is_elected(disconnect_reason_.has_value());
    if (!elected) std::this_thread::sleep_for(reporter_grace);
    return elected;
  }

  // The host leader reports if its host is elected: true once it has gone. If the leader was stopped before
  // it reached rank 0, another rank takes its place. Rank 0 itself names a leader that is stopped later.
  bool defer_to_host_leader() {
    Deadline const limit(host_leader_grace);
    while (!limit.passed()) {
      if (!channel_ && HostLeader::leader_is_stopped(io_, config_, term_)) {
        host_leader_ = HostLeader::try_become_leader(io_, config_, ++term_);
        if (host_leader_) return false;
      }
      if (HostLeader::try_become_leader(io_, config_, term_)) return true;
      std::this_thread::sleep_for(poll_interval);
    }
    return true;
  }

  const RendezvousConfig& config_;
  const JoinRecord& mine_;
  asio::io_context io_;
  Rank0Connector connector_{io_, config_};
  bool direct_ = config_.host_socket.empty();  // connects to rank 0 itself
  std::unique_ptr<HostLeader> host_leader_;    // set when this rank leads its host
  int term_ = 0;                               // number of host leaders that were stopped
  control::Key key_{};
  AuthFailure rank0_auth_failure_ = AuthFailure::none;
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
