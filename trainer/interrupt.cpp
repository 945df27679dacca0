// SPDX-License-Identifier: Apache-2.0
#include "interrupt.hpp"

#include <csignal>
#include <initializer_list>

namespace muster {
namespace {

volatile std::sig_atomic_t received = 0;
extern "C" void remember_signal(int signal) { received = signal; }

}  // namespace

void watch_for_interrupts() {
  received = 0;
  struct sigaction action {};
  action.sa_handler = remember_signal;
  action.sa_flags = SA_RESTART | static_cast<int>(SA_RESETHAND);
  sigemptyset(&action.sa_mask);
  for (const int signal : {SIGINT, SIGTERM}) sigaction(signal, &action, nullptr);
}

int interrupt_received() noexcept { return static_cast<int>(received); }

}  // namespace muster
