// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ucontext.h>

#include <asio/detail/thread_context.hpp>
#include <asio/detail/thread_info_base.hpp>
#include <cstddef>
#include <functional>
#include <optional>

namespace simulator {

/// A call that can pause, on a stack of its own. All fibers of the simulator run on one thread of the system,
/// so a switch costs less than a microsecond and does not wait for a busy machine.
class Fiber {
 public:
  Fiber();
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  /// Runs `call` until it pauses or returns. `call` does not throw.
  void start(std::function<void()> call);
  /// Continues the call after its pause.
  void resume();
  /// Within the call: returns to the caller of start() or resume(), until the next resume().
  void pause();
  /// True when it has no call.
  bool idle() const { return !call_; }

 private:
  // What C++ knows of the exceptions that the running call handles (__cxa_eh_globals).
  struct Exceptions {
    void* caught = nullptr;
    unsigned int uncaught = 0;
  };
  // asio keeps a list of the io_contexts that a thread runs in, and expects that they end in reverse order.
  using AsioCalls = asio::detail::call_stack<asio::detail::thread_context, asio::detail::thread_info_base>;

  static void enter();
  void switch_in();
  static void swap_exceptions(Exceptions& saved);

  std::function<void()> call_;
  void* stack_;
  ucontext_t own_{};
  ucontext_t caller_{};
  Exceptions exceptions_;
  std::optional<AsioCalls::context> below_;  // the bottom of the call's list
  std::optional<AsioCalls::context> above_;  // keeps the top of the list, while the call is paused
  // For AddressSanitizer.
  void* own_frames_ = nullptr;
  void* caller_frames_ = nullptr;
  const void* caller_stack_ = nullptr;
  std::size_t caller_stack_bytes_ = 0;
};

}  // namespace simulator
