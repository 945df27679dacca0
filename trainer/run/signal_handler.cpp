// SPDX-License-Identifier: Apache-2.0
#include "run/signal_handler.hpp"

#include <atomic>
#include <csignal>
#include <initializer_list>

namespace muster {
namespace {

std::atomic<int> received{0};
static_assert(std::atomic<int>::is_always_lock_free);  // safe in a handler

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

InterruptWatch::InterruptWatch() {
  received = 0;
  for (const int signal : {SIGINT, SIGTERM, SIGUSR2}) install(signal, remember_signal);
  if (is_free(SIGUSR1)) install(SIGUSR1, remember_signal);
  install(SIGPIPE, SIG_IGN);
  taker_ = std::thread([this] { ended_.acquire(); });  // with the mask from before
  sigset_t kept_away;
  sigfillset(&kept_away);
  for (const int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS, SIGABRT})
    sigdelset(&kept_away, fault);
  pthread_sigmask(SIG_BLOCK, &kept_away, &before_);
}

InterruptWatch::~InterruptWatch() {
  pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  ended_.release();
  taker_.join();
}

int interrupt_received() noexcept { return received; }

bool is_preemption(int signal) noexcept { return signal != 0 && signal != SIGINT; }

}  // namespace muster
