// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <string>

#include "transport/endpoint.hpp"

namespace muster::control {

/// Another process of this host, held on to so that its number cannot come to mean another one
/// (pidfd_open(2)). Not thread-safe.
class ProcessHandle {
 public:
  ProcessHandle() = default;
  explicit ProcessHandle(long pid);
  /// The process at the other end of a UNIX socket, as the kernel says; none for TCP.
  static ProcessHandle peer_of(Socket& socket);
  ~ProcessHandle();
  ProcessHandle(ProcessHandle&& other) noexcept;
  ProcessHandle& operator=(ProcessHandle&& other) noexcept;

  explicit operator bool() const { return descriptor_ >= 0; }
  long pid() const { return pid_; }
  /// Readable once the process has ended. Still this object's.
  int descriptor() const { return descriptor_; }

  bool has_ended() const;
  /// "was killed by signal 9 (Killed)", "ended with exit code 0" or, when the kernel does not tell whoever is
  /// not the parent, "ended"; empty when it still runs after `wait`. The kernel tells from Linux 6.15 on,
  /// older ones only until the parent has asked.
  std::string how_it_ended(std::chrono::milliseconds wait) const;
  /// The state as in /proc/PID/stat ('R', 'S', 'D', 'T' stopped, 't' traced, …); 0 when it is gone.
  char state() const;
  /// SIGKILL.
  void kill() const;

 private:
  long pid_ = 0;
  int descriptor_ = -1;
};

}  // namespace muster::control
