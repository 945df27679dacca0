// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <thread>

#include "failure/failure.hpp"
#include "launcher/local_hello.hpp"
#include "log.hpp"
#include "rendezvous/host_leader.hpp"
#include "rendezvous/key_server.hpp"
#include "rendezvous/missing_ranks.hpp"
#include "rendezvous/process_report.hpp"
#include "rendezvous/rendezvous.hpp"
#include "roster/roster.hpp"
#include "transport/authenticating_acceptor.hpp"
#include "transport/fd_limit.hpp"
#include "transport/secure_channel.hpp"

namespace muster::bootstrap {
namespace {

using control::Message;
using std::chrono::milliseconds;

// How long the connected ranks have to send their process reports.
constexpr milliseconds process_report_time{1500};
constexpr milliseconds server_flush_time{5000};
// Far below the limit of a frame.
constexpr std::size_t chunk_bytes = 1u << 20;

class RendezvousServer {
 public:
  RendezvousServer(const RendezvousConfig& config, const JoinRecord& mine)
      : config_(config),
        mine_(mine),
        sent_key_(control::random_key()),
        key_(config.codec ? control::mix_keys(sent_key_, config.key) : config.key.value()),
        rank_acceptor_(io_, config.codec ? std::vector<std::uint16_t>{0} : config.ports) {
    control::raise_fd_limit(static_cast<std::size_t>(config.size));
    if (config.codec) open_key_server();
    if (!config.host_socket.empty()) open_host_leader();
    auto const ranks = static_cast<std::uint32_t>(config.size);
    rank_acceptor_.set_on_auth_failure([this](int rank) { progress_.unauthenticated.insert(rank); });
    rank_acceptor_.open(
        config.size, [ranks](std::uint32_t rank) { return rank > 0 && rank < ranks; },
        control::purpose_key(key_, control::purpose::rendezvous, 0),
        [this](int rank, control::Socket socket, const control::SessionKeys& keys) {
          admit(rank, std::move(socket), keys);
        });
  }

  std::vector<JoinRecord> run(const Deadline& deadline) {
    auto const complete = [this] { return static_cast<int>(records_.size()) == config_.size - 1; };
    auto const interrupted = [this] { return config_.interrupted && config_.interrupted(); };
    run_until(deadline, [&] { return complete() || failure_ || interrupted(); });
    if (!complete() && !failure_ && interrupted())
      fail(ErrorCode::lost_rank, "join: a rank of the job was lost while the job grew");
    if (!complete() && !failure_) report_missing_ranks(deadline);
    if (failure_) {
      broadcast(encode(*failure_));
      for (auto& channel : duplicates_) channel->send(encode(*failure_));
      close_connections();
      throw Error(failure_->code, failure_->text);
    }
    auto all = all_records();
    broadcast_records(all);
    close_connections();
    return all;
  }

 private:
  void open_key_server() {
    auto acceptor = config_.local_name.empty() ? std::make_unique<control::Acceptor>(io_, config_.ports)
                                               : std::make_unique<control::Acceptor>(io_, config_.local_name);
    log::debug(
        "join: {}: serving the key at {}", config_.name,
        config_.local_name.empty() ? fmt::format("port {}", acceptor->port()) : "@" + config_.local_name);
    key_server_.emplace(std::move(acceptor), *config_.codec, config_.job, config_.size,
                        JobCredentials{sent_key_, rank_acceptor_.port()}, [this](const std::string& reason) {
                          ++refused_requests_;
                          last_refusal_ = reason;
                        });
  }

  // If another rank leads this host, the host's ranks connect through that one.
  void open_host_leader() try {
    host_leader_ = HostLeader::try_become_leader(io_, config_);
    if (!host_leader_) return;
    host_leader_->open(
        key_, [this](int rank, const Message& message) { on_message_of_host_rank(rank, message); },
        [this](int rank, const std::string& reason) { on_rank_lost(rank, reason); });
  } catch (const Error& error) {
    log::debug("join: {}: {}", config_.name, error.what());
    host_leader_.reset();
  }

  template <typename Done>
  void run_until(const Deadline& deadline, Done done) {
    while (!done() && !deadline.passed()) {
      if (io_.stopped()) io_.restart();
      io_.run_one_until(std::min(deadline.when(), Deadline::Clock::now() + interrupt_interval));
    }
  }

  void admit(int rank, control::Socket socket, const control::SessionKeys& keys) {
    auto channel = std::make_shared<control::SecureChannel>(std::move(socket), keys);
    if (records_.contains(rank)) {
      duplicates_.push_back(channel);
    } else {
      // Not closed: it may belong to another process that claims this rank, whose hello must be seen too.
      if (auto const old = channels_.extract(rank)) duplicates_.push_back(old.mapped());
      channels_.emplace(rank, channel);
    }
    channel->start([this, rank](const Message& message) { on_message(rank, message); },
                   [this, rank, raw = channel.get()](const std::string& reason) {
                     auto const found = channels_.find(rank);
                     if (found != channels_.end() && found->second.get() == raw) on_disconnect(rank, reason);
                   });
  }

  void on_message(int rank, const Message& message) {
    using namespace protocol;
    auto const& type = type_of(message);
    if (type == ProcessReport::type) return on_process_report(rank, decode<ProcessReport>(message));
    if (type == JoinHello::type) return on_hello(rank, decode<JoinHello>(message));
    if (type != FromRank::type && type != RankDisconnected::type) return;
    // A host leader forwards this for another rank of its host.
    auto const forwarded_rank = message.at("rank").get<int>();
    if (forwarded_rank < 1 || forwarded_rank >= config_.size)
      throw Error(ErrorCode::system, "a message for a rank that does not exist");
    if (type == RankDisconnected::type)
      return on_rank_lost(forwarded_rank, decode<RankDisconnected>(message).cause);
    on_message_of_host_rank(forwarded_rank, message.at("message"));
  }

  void on_message_of_host_rank(int rank, const Message& message) {
    if (protocol::type_of(message) == protocol::JoinHello::type)
      on_hello(rank, protocol::decode<protocol::JoinHello>(message));
  }

  void on_hello(int rank, const protocol::JoinHello& hello) {
    auto record = decode_record(hello.record);
    if (record.hello.rank != rank) throw Error(ErrorCode::system, "a hello names another rank");
    if (hello.size != config_.size) {
      return fail(ErrorCode::environment,
                  fmt::format("join: {} expects {} ranks but rank 0 expects {}: start all ranks "
                              "with the same size",
                              describe_rank(record.hello), hello.size, config_.size));
    }
    if (auto const found = records_.find(rank); found != records_.end()) {
      const Hello& first = found->second.hello;
      return fail(
          ErrorCode::environment,
          fmt::format("join: two processes claim to be rank {}: pid {} on host {} and pid {} on host "
                      "{}: start each rank once, or set MUSTER_JOIN=address below a launcher of your own",
                      rank, first.pid, first.host, record.hello.pid, record.hello.host));
    }
    records_.emplace(rank, std::move(record));
    log::debug("join: {}: hello of rank {}, {} of {} received", config_.name, rank, records_.size() + 1,
               config_.size);
  }

  void on_disconnect(int rank, const std::string& reason) {
    channels_.erase(rank);
    on_rank_lost(rank, reason);
  }

  void on_rank_lost(int rank, const std::string& reason) {
    auto const found = records_.find(rank);
    if (found == records_.end() || failure_ || closing_) return;
    fail(ErrorCode::lost_rank,
         fmt::format("join: {}, pid {}, ended while it waited for the other ranks ({})",
                     describe_rank(found->second.hello), found->second.hello.pid, reason));
  }

  void fail(ErrorCode code, std::string text) {
    if (!failure_) failure_ = control::Failure{code, 0, std::move(text)};
  }

  void on_process_report(int rank, const protocol::ProcessReport& report) {
    auto const found = records_.find(rank);
    if (found == records_.end()) return;
    reported_.insert(rank);
    progress_.processes_by_host[found->second.hello.host].merge(checked_processes(report, config_.size));
  }

  void report_missing_ranks(const Deadline& deadline) {
    // Queries one rank per host.
    std::set<std::string> hosts{mine_.hello.host};
    std::set<int> queried;
    for (const auto& [rank, record] : records_) {
      if (!channels_.contains(rank) || !hosts.insert(record.hello.host).second) continue;
      queried.insert(rank);
      channels_.at(rank)->send(encode(protocol::ProcessQuery{}));
    }
    progress_.processes_by_host[mine_.hello.host] = find_rank_processes(get_env, config_.name);
    run_until(Deadline(process_report_time), [&] { return reported_ == queried; });
    progress_.size = config_.size;
    progress_.tasks_start_together = config_.tasks_start_together;
    progress_.host_of = config_.host_of;
    progress_.present.insert(0);
    bool hosts_match = true;
    for (const auto& [rank, record] : records_) {
      progress_.present.insert(rank);
      auto const index = static_cast<std::size_t>(rank);
      if (index < config_.host_of.size() && config_.host_of[index] != record.hello.host) hosts_match = false;
    }
    if (!hosts_match) progress_.host_of.clear();
    for (const auto& [rank, channel] : channels_) progress_.connected.insert(rank);
    auto text = describe_missing_ranks(progress_, deadline.length());
    if (refused_requests_ > 0)
      text += fmt::format("; {} request{} for the key refused, the last because: {}", refused_requests_,
                          refused_requests_ == 1 ? " was" : "s were", last_refusal_);
    fail(ErrorCode::deadline, text);
  }

  std::vector<JoinRecord> all_records() {
    std::vector<JoinRecord> all{mine_};
    for (auto& [rank, record] : records_) all.push_back(std::move(record));
    return all;
  }

  void broadcast(const Message& message) {
    for (auto& [rank, channel] : channels_) channel->send(message);
    if (host_leader_) host_leader_->broadcast(message);
  }

  void broadcast_records(const std::vector<JoinRecord>& all) {
    protocol::JoinRecords chunk;
    std::size_t bytes = 0;
    for (const auto& record : all) {
      bytes += chunk.records.emplace_back(encode_record(record)).size();
      if (bytes < chunk_bytes) continue;
      broadcast(encode(chunk));
      chunk.records.clear();
      bytes = 0;
    }
    if (!chunk.records.empty()) broadcast(encode(chunk));
  }

  // Flushes what was sent.
  void close_connections() {
    closing_ = true;
    rank_acceptor_.close();
    if (key_server_) key_server_->close();
    if (host_leader_) host_leader_->close();
    for (auto& [rank, channel] : channels_) channel->close();
    for (auto& channel : duplicates_) channel->close();
    channels_.clear();
    if (io_.stopped()) io_.restart();
    io_.run_for(server_flush_time);
  }

  const RendezvousConfig& config_;
  const JoinRecord& mine_;
  control::Key sent_key_;  // to ranks with the right credentials
  control::Key key_;
  asio::io_context io_;
  control::AuthenticatingAcceptor rank_acceptor_;
  std::optional<KeyServer> key_server_;
  std::unique_ptr<HostLeader> host_leader_;
  std::map<int, std::shared_ptr<control::SecureChannel>> channels_;
  std::vector<std::shared_ptr<control::SecureChannel>> duplicates_;  // further connections that claim a rank
  std::map<int, JoinRecord> records_;
  std::optional<control::Failure> failure_;
  JoinProgress progress_;
  std::set<int> reported_;
  int refused_requests_ = 0;
  std::string last_refusal_;
  bool closing_ = false;
};

}  // namespace

std::vector<JoinRecord> run_rendezvous_server(const RendezvousConfig& config, const JoinRecord& mine,
                                              const Deadline& deadline) {
  return RendezvousServer(config, mine).run(deadline);
}

}  // namespace muster::bootstrap
