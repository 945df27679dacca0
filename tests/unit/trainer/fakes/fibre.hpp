// SPDX-License-Identifier: Apache-2.0
// Stacks to switch between, for the fake GPU's threads. Compiled with FAKE_GPU_FINDS_RACES, each fibre is a
// thread of ThreadSanitizer, which then reports accesses of two fibres that nothing orders.
#pragma once

#include <ucontext.h>

#include <cstddef>

namespace fake_gpu {

#ifdef FAKE_GPU_FINDS_RACES
inline constexpr bool finds_races = true;
#else
inline constexpr bool finds_races = false;
#endif

class Fibre {
 public:
  Fibre() = default;
  ~Fibre();
  Fibre(const Fibre&) = delete;
  Fibre& operator=(const Fibre&) = delete;

  /// The next switch to this fibre calls `entry`, which must never return. What the caller did before happens
  /// before it.
  void prepare(void (*entry)());
  bool is_prepared() const { return stack_ != nullptr; }
  /// Continues `to`, until it or another fibre switches back to `from`. A fibre that was never prepared
  /// stands for the program's own stack.
  static void switch_fibre(Fibre& from, Fibre& to);
  /// `entry` calls it first.
  void finish_switch();

 private:
  void release_stack();

  unsigned char* stack_ = nullptr;
  ucontext_t start_{};
  void* at_[5]{};  // of __builtin_setjmp()
  bool started_ = false;
  void* sanitizer_ = nullptr;
};

/// A thread of ThreadSanitizer without a stack of its own. Does nothing in other builds.
class Agent {
 public:
  ~Agent();
  /// Runs `act` as this agent.
  template <typename Act>
  void run(Act act) {
    void* const caller = enter();
    act();
    leave(caller);
  }

 private:
  void* enter();
  void leave(void* caller);

  void* sanitizer_ = nullptr;
};

/// What a fibre did before release(object) happens before what a fibre does after a later acquire(object).
void release(void* object);
void acquire(void* object);
/// Tell ThreadSanitizer of an access of 16 bytes by code that it does not see.
void note_read(const void* address);
void note_write(void* address);

/// Memory that no earlier access is known of.
unsigned char* map_memory(std::size_t bytes);
void unmap_memory(unsigned char* memory, std::size_t bytes);

}  // namespace fake_gpu
