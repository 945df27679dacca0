// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "simulator.hpp"
#include "transport/channel.hpp"

namespace simulator {

using muster::protocol::Message;

struct NetworkOptions {
  Duration host_latency = std::chrono::microseconds(20);  ///< between processes of a host, at most
  Duration latency = std::chrono::microseconds(200);      ///< between hosts, at most
  Duration heartbeat_timeout = std::chrono::seconds(10);
};

class SimulatedChannel;

/// The connections of a simulated job: messages arrive in order, after a random time. A connection breaks
/// when a process ends; it is silent when a process is stopped or a host cannot be reached.
class Network {
 public:
  Network(Simulator& simulator, NetworkOptions options);

  /// Which thread of a process has the connection. Only the control thread sends heartbeats.
  enum class Thread { control, program };

  /// A connection between two processes: its end at `a`, its end at `b`.
  std::pair<std::shared_ptr<SimulatedChannel>, std::shared_ptr<SimulatedChannel>> connect(
      Process& a, Process& b, Thread thread = Thread::control);
  /// The kernel closes the sockets of a process that has ended. What is under way still arrives.
  void on_end(Process& process);
  /// From now on nothing reaches or leaves the host.
  void isolate(int host);
  /// From now on the process does not run.
  void stop(Process& process);
  /// True when a message from one process can reach the other.
  bool reaches(const Process& from, const Process& to) const;
  const NetworkOptions& options() const { return options_; }

 private:
  friend class SimulatedChannel;

  Duration draw_latency(const Process& from, const Process& to);
  // The silence began at the last heartbeat before now.
  void notice_silence(const std::shared_ptr<SimulatedChannel>& channel);

  Simulator& simulator_;
  NetworkOptions options_;
  std::set<int> isolated_;
  std::vector<std::shared_ptr<SimulatedChannel>> channels_;
};

/// One end of a connection. It keeps the contract of control::Channel in simulated time.
class SimulatedChannel final : public muster::control::Channel,
                               public std::enable_shared_from_this<SimulatedChannel> {
 public:
  SimulatedChannel(Network& network, Process& self, Process& peer, Network::Thread thread)
      : network_(network), self_(self), peer_(peer), thread_(thread) {}

  void start(OnMessage on_message, OnDisconnect on_disconnect,
             std::chrono::milliseconds heartbeat_timeout) override;
  void send(const Message& message) override;
  void send_heartbeat() override {}
  void close() override;
  /// Neither sends nor receives from now on, and the other end does not notice.
  void drop() { closed_ = true; }
  muster::control::DisconnectCause disconnect_cause(const std::string& reason) const override;

 private:
  friend class Network;

  void send_event(std::function<void(SimulatedChannel&)> event);
  void receive(const Message& message);
  void disconnect(const std::string& reason);
  // Runs `call` on the thread that has this end.
  void run_on_thread(std::function<void()> call);

  Network& network_;
  Process& self_;
  Process& peer_;
  Network::Thread thread_;
  std::weak_ptr<SimulatedChannel> other_end_;
  Time last_arrival_{};  // of what this end sent
  bool started_ = false;
  bool closed_ = false;
  bool silent_ = false;
  std::vector<std::function<void(SimulatedChannel&)>> before_start_;  // arrived before start()
  OnMessage on_message_;
  OnDisconnect on_disconnect_;
};

}  // namespace simulator
