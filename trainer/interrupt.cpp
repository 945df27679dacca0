// SPDX-License-Identifier: Apache-2.0
#include "interrupt.hpp"

#include <csignal>
#include <initializer_list>

namespace muster {
namespace {

volatile std::sig_atomic_t received = 0;

void install(int signal, void (*handler)(int)) {
  struct sigaction action {};
  action.sa_handler = handler;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  sigaction(signal, &action, nullptr);
}

// Calls only what POSIX lists as safe in a handler.
extern "C" void remember_signal(int signal) {
  if (received != 0) {
    install(signal, SIG_DFL);
    raise(signal);  // comes when this returns
    return;
  }
  received = signal;
}

bool is_free(int signal) {
  struct sigaction current {};
  return sigaction(signal, nullptr, &current) == 0 &&
         (current.sa_handler == SIG_DFL || current.sa_handler == remember_signal);
}

}  // namespace

void watch_for_interrupts() {
  received = 0;
  for (const int signal : {SIGINT, SIGTERM, SIGUSR2}) install(signal, remember_signal);
  if (is_free(SIGUSR1)) install(SIGUSR1, remember_signal);
}

int interrupt_received() noexcept { return static_cast<int>(received); }

bool is_preemption(int signal) noexcept { return signal != 0 && signal != SIGINT; }

}  // namespace muster
