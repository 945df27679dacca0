// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <csignal>
#include <semaphore>
#include <thread>

#include "muster/communicator.hpp"

namespace muster {

/// While this object exists, the first SIGINT, SIGTERM, SIGUSR2 (and SIGUSR1, unless another part of the
/// process handles it) only sets a flag. A second one of any of them ends the process at once. SIGPIPE is
/// ignored from then on, so that a run survives the reader of its output.
/// Signals are delivered to a thread of this object; the constructing thread, and threads that it starts
/// meanwhile, receive only their own faults. Reason: in oneDNN's matrix products (2.6.3, kernels for AVX2 and
/// AVX-512) the stack pointer points into the heap, and a handler's frame would be written there.
class SignalHandler {
 public:
  SignalHandler();
  ~SignalHandler();
  SignalHandler(const SignalHandler&) = delete;
  SignalHandler& operator=(const SignalHandler&) = delete;

 private:
  std::binary_semaphore ended_{0};
  std::thread signal_thread_;
  sigset_t previous_mask_{};
};

/// The signal received since the last SignalHandler was constructed, or 0.
int received_signal() noexcept;
/// The largest received_signal() of all ranks. Collective.
int share_signal(Communicator& world);
/// True for a batch system's signal, after which the run should continue later; false for a person's Ctrl-C.
bool is_preemption(int signal) noexcept;

}  // namespace muster
