// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <asio.hpp>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "control_plane/control_thread.hpp"
#include "parameter_server/layout.hpp"
#include "parameter_server/messages.hpp"
#include "parameter_server/slice_updates.hpp"
#include "parameter_server/task_pool.hpp"
#include "timer.hpp"
#include "transport/authenticating_acceptor.hpp"
#include "transport/channel.hpp"

namespace muster::parameter_server {

/// A parameter server without a job: the connections of its clients, and what it answers them. The public
/// functions on any thread.
class Server {
 public:
  /// "rank 3 (host n1)", for messages.
  using DescribeRank = std::function<std::string(int rank)>;

  /// `server`: its number, which is its rank. The arrays are as for ParameterServer.
  Server(const Layout& layout, int server, std::vector<std::span<float>> arrays,
         ParameterServer::Update update, DescribeRank describe_rank);
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  std::uint16_t port() const { return port_; }
  /// Clients prove with it that they belong to the job.
  const control::Key& key() const { return key_; }
  /// From the update function of server 0.
  void add_sums(std::span<const double> sums) { pool().add_sums(sums); }
  /// Throws what ended the server.
  void check() const;

 private:
  // A gradient that a worker is sending.
  struct Assembly {
    ParameterTask task;
    std::vector<float> gradient;
    std::size_t received = 0;
  };
  struct WaitingRead {
    int rank;
    Read request;
  };
  struct WaitingRank {
    WaitingRank(asio::io_context& io, int its_rank, const WaitFor& its_request)
        : rank(its_rank), request(its_request), timer(io) {}
    int rank;
    WaitFor request;
    Timer timer;
  };

  void register_handlers();
  void admit(int rank, control::Socket socket, const control::SessionKeys& keys);
  void on_message(int rank, const Message& message);
  void on_disconnect(int rank, const std::string& reason);
  void reply(int rank, Reply message);
  void take(int rank, const Take& request);
  void read(int rank, const Read& request);
  void send_values(int rank, const Read& request);
  void write(int rank, const Write& request);
  void add_part(int rank, const PushPart& request);
  void end_push(int rank, const PushEnd& request);
  void wait_for(int rank, const WaitFor& request);
  void remove_worker(int rank);
  void answer_waiting();
  void add_clock_sums(std::uint64_t clock, Reply& message) const;
  bool answer(const WaitingRank& waiting);
  std::string describe_missing(const WaitFor& request) const;
  TaskPool& pool();
  std::span<float> part(std::uint64_t array, std::uint64_t offset, std::uint64_t count);
  void fail(const std::string& why) noexcept;
  // Why the server has failed; empty when it has not.
  std::string error() const;
  // Runs what may call the update function, unless the server has failed. What it throws fails the server.
  void run_updates(const std::function<void()>& run);
  // Sends the server's error, if there is one. Returns whether there is.
  bool reply_error(int rank, std::uint64_t id);

  Layout layout_;
  Share slice_;
  std::vector<std::span<float>> arrays_;
  DescribeRank describe_rank_;
  SliceUpdates updates_;
  std::optional<TaskPool> pool_;  // of server 0
  std::set<int> workers_;         // that are not lost
  control::Key key_;
  std::uint16_t port_ = 0;
  protocol::Dispatcher<int> handlers_;
  mutable std::mutex mutex_;
  std::string error_;
  control::ControlThread thread_{[this](const std::string& why) { fail(why); }};
  std::map<int, std::shared_ptr<control::Channel>> channels_;
  std::map<int, Assembly> assemblies_;
  std::list<WaitingRead> waiting_reads_;
  std::list<WaitingRank> waiting_ranks_;
  std::unique_ptr<control::AuthenticatingAcceptor> acceptor_;
};

}  // namespace muster::parameter_server
