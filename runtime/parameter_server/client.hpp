// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "clock.hpp"
#include "control_plane/control_thread.hpp"
#include "deadline.hpp"
#include "parameter_server/layout.hpp"
#include "parameter_server/messages.hpp"
#include "parameter_server/server_link.hpp"
#include "transport/endpoint.hpp"
#include "transport/handshake.hpp"

namespace muster::parameter_server {

/// Where a server listens.
struct ServerAddress {
  std::vector<control::Endpoint> endpoints;
  control::Key key{};
  std::string name;  ///< "rank 1 (host n1)", for messages
};

/// A ParameterClient without a job.
class Client {
 public:
  /// `check_job` throws the job's failure, if there is one.
  Client(const Layout& layout, int rank, const std::vector<ServerAddress>& servers,
         std::function<void()> check_job);
  /// Waits for the last push, unless a wait was abandoned: a server may not answer.
  ~Client();
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  const Layout& layout() const { return layout_; }
  std::optional<ParameterTask> take(std::uint64_t last);
  void prefetch(std::uint64_t clock);
  void pull(std::uint64_t clock, std::span<float> parameters);
  void push_part(const ParameterTask& task, std::size_t offset, std::span<const float> gradient);
  void end_push(const ParameterTask& task, std::span<const double> arguments, std::span<const double> sums);
  void flush();
  std::optional<std::vector<double>> wait_for(std::uint64_t clock);
  std::uint64_t completed() const { return completed_; }
  void add_sums(std::span<const double> sums);
  void read(std::size_t array, std::span<float> values, std::uint64_t clocks, bool is_bfloat16);
  void write(std::size_t array, std::span<const float> values);

 private:
  // Requests that are waited for together. Guarded by mutex_.
  struct Batch {
    std::size_t left = 0;
    bool abandoned = false;  // nobody waits: the program's memory must not be written to
    std::optional<Error> error;
    Reply last;
  };
  using OnValues = std::function<void(const Reply& reply)>;

  template <typename Request>
  void send(int server, const std::shared_ptr<Batch>& batch, Request request, OnValues on_values = {});
  void on_reply(int server, Batch& batch, Reply reply, const OnValues& on_values);
  Reply wait(const std::shared_ptr<Batch>& batch, const std::string& what, std::chrono::milliseconds wait);
  template <typename Request>
  Reply call(Request request, const std::string& what);
  void check_lost(Clock::time_point& found);
  void for_each_part(std::size_t offset, std::size_t count,
                     const std::function<void(int server, std::size_t at, std::size_t count)>& call) const;
  std::shared_ptr<Batch> begin_read(std::size_t array, std::span<float> values, std::uint64_t clocks,
                                    bool is_bfloat16);
  void drop_prefetched();
  void begin_push(const ParameterTask& task);
  void on_lost(int server, const std::string& reason);
  std::string describe_unanswered(const std::string& what, std::chrono::milliseconds wait) const;

  Layout layout_;
  std::vector<ServerAddress> servers_;
  std::function<void()> check_job_;
  std::uint64_t last_id_ = 0;
  std::atomic<std::uint64_t> completed_{0};
  std::optional<ParameterTask> pushing_;
  bool has_abandoned_wait_ = false;
  std::shared_ptr<Batch> push_;
  std::shared_ptr<Batch> prefetch_;
  std::vector<float> prefetched_;        // guarded by mutex_ while prefetch_ is not done
  std::uint64_t prefetched_clocks_ = 0;  // that were complete
  std::mutex mutex_;
  Condition changed_;
  std::string lost_;                  // why a connection ended
  std::vector<std::size_t> pending_;  // requests without a reply, by server
  control::ControlThread thread_;
  std::vector<std::shared_ptr<ServerLink>> links_;
};

}  // namespace muster::parameter_server
