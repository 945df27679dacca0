// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <string>

#include "transport/endpoint.hpp"

namespace muster::control {

/// Another process of this host, by pidfd (pidfd_open(2)), so that a reused pid cannot be mistaken for it.
/// Not thread-safe.
class ProcessHandle {
 public:
  ProcessHandle() = default;
  explicit ProcessHandle(long pid);
  /// The process at the other end of a UNIX socket (SO_PEERCRED); an empty handle for TCP.
  static ProcessHandle from_peer(Socket& socket);
  ~ProcessHandle();
  ProcessHandle(ProcessHandle&& other) noexcept;
  ProcessHandle& operator=(ProcessHandle&& other) noexcept;

  explicit operator bool() const { return descriptor_ >= 0; }
  long pid() const { return pid_; }
  /// Readable once the process has ended. Owned by this object.
  int descriptor() const { return descriptor_; }

  bool has_ended() const;
  /// "was killed by signal 9 (Killed)", "ended with exit code 0", or "ended" when the kernel does not return
  /// the status to a process that is not the parent. Empty when the process still runs after `wait`. Before
  /// Linux 6.15 the status is available only until the parent has reaped the process.
  std::string describe_exit(std::chrono::milliseconds wait) const;
  /// The state in /proc/PID/stat ('R', 'S', 'D', 'T' stopped, 't' traced, …); 0 when the process has ended.
  char state() const;
  /// SIGKILL.
  void kill() const;

 private:
  long pid_ = 0;
  int descriptor_ = -1;
};

}  // namespace muster::control
