// SPDX-License-Identifier: Apache-2.0
#include "run/signal_handler.hpp"

#include <atomic>
#include <csignal>
#include <cstdint>
#include <initializer_list>
#include <span>

namespace muster {
namespace {

std::atomic<int> received{0};
static_assert(std::atomic<int>::is_always_lock_free);  // async-signal-safe

void install(int signal, void (*handler)(int)) {
  struct sigaction action {};
  action.sa_handler = handler;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  sigaction(signal, &action, nullptr);
}

// Calls only async-signal-safe functions.
extern "C" void remember_signal(int signal) {
  if (received != 0) {
    install(signal, SIG_DFL);
    raise(signal);  // delivered when the handler returns
    return;
  }
  received = signal;
}

bool is_unused(int signal) {
  struct sigaction current {};
  return sigaction(signal, nullptr, &current) == 0 &&
         (current.sa_handler == SIG_DFL || current.sa_handler == remember_signal);
}

}  // namespace

SignalHandler::SignalHandler() {
  received = 0;
  for (const int signal : {SIGINT, SIGTERM, SIGUSR2}) install(signal, remember_signal);
  if (is_unused(SIGUSR1)) install(SIGUSR1, remember_signal);
  install(SIGPIPE, SIG_IGN);
  signal_thread_ = std::thread(
      [this] { ended_.acquire(); });  // has the signal mask from before, so it receives the signals
  sigset_t blocked;
  sigfillset(&blocked);
  for (const int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS, SIGABRT})
    sigdelset(&blocked, fault);
  pthread_sigmask(SIG_BLOCK, &blocked, &previous_mask_);
}

SignalHandler::~SignalHandler() {
  pthread_sigmask(SIG_SETMASK, &previous_mask_, nullptr);
  ended_.release();
  signal_thread_.join();
}

int received_signal() noexcept { return received; }

int share_signal(Communicator& world) {
  std::int32_t signal = received_signal();
  world.all_reduce(std::span<std::int32_t>(&signal, 1), Reduction::max);
  return signal;
}

bool is_preemption(int signal) noexcept { return signal != 0 && signal != SIGINT; }

}  // namespace muster
