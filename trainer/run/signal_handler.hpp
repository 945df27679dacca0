// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <csignal>
#include <semaphore>
#include <thread>

namespace muster {

/// As long as it lives the first SIGINT, SIGTERM, SIGUSR2 or, where nothing else in the process uses it,
/// SIGUSR1 only sets a flag; a second one of any of them ends the process at once. SIGPIPE is ignored from
/// then on: a run outlives who reads its output. The thread that made it, and those that it starts meanwhile,
/// are met by no signal but their own faults: a thread of its own takes them. For in oneDNN's matrix products
/// (2.6.3, kernels for AVX2 and AVX-512) the stack pointer points into the heap, and a handler's frame would
/// be written there.
class InterruptWatch {
 public:
  InterruptWatch();
  ~InterruptWatch();
  InterruptWatch(const InterruptWatch&) = delete;
  InterruptWatch& operator=(const InterruptWatch&) = delete;

 private:
  std::binary_semaphore ended_{0};
  std::thread taker_;
  sigset_t before_{};
};

/// The signal that came since the last watch began, or 0.
int interrupt_received() noexcept;
/// True when a batch system sent it, so that the run is to go on later; false for a person's Ctrl-C.
bool is_preemption(int signal) noexcept;

}  // namespace muster
