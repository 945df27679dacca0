// SPDX-License-Identifier: Apache-2.0
#include "fibre.hpp"

#include <sys/mman.h>

#include <cstdint>
#include <cstdlib>
#include <new>

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#endif

#ifdef FAKE_GPU_FINDS_RACES
extern "C" {
void* __tsan_get_current_fiber();
void* __tsan_create_fiber(unsigned flags);
void __tsan_destroy_fiber(void* fiber);
void __tsan_switch_to_fiber(void* fiber, unsigned flags);
void __tsan_acquire(void* object);
void __tsan_release(void* object);
void __tsan_read16(void* address);
void __tsan_write16(void* address);
}
#endif

namespace fake_gpu {
namespace {

constexpr std::size_t stack_bytes = 1 << 17;

#ifdef __SANITIZE_ADDRESS__
// The program's own stack, known once the first fibre has left it.
const void* program_stack = nullptr;
std::size_t program_stack_bytes = 0;
#endif

}  // namespace

unsigned char* map_memory(std::size_t bytes) {
  void* const memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  return static_cast<unsigned char*>(memory);
}

void unmap_memory(unsigned char* memory, std::size_t bytes) { munmap(memory, bytes); }

Fibre::~Fibre() { release_stack(); }

void Fibre::release_stack() {
#ifdef FAKE_GPU_FINDS_RACES
  if (stack_ != nullptr) __tsan_destroy_fiber(sanitizer_);
#endif
  if (stack_ != nullptr) unmap_memory(stack_, stack_bytes);
  stack_ = nullptr;
}

void Fibre::prepare(void (*entry)()) {
  if (finds_races) release_stack();  // a new stack, and a new thread of ThreadSanitizer
  if (stack_ == nullptr) stack_ = map_memory(stack_bytes);
#ifdef __SANITIZE_ADDRESS__
  __asan_unpoison_memory_region(stack_, stack_bytes);  // frames of a thread that did not end
#endif
#ifdef FAKE_GPU_FINDS_RACES
  sanitizer_ = __tsan_create_fiber(0);
#endif
  started_ = false;
  getcontext(&start_);
  start_.uc_stack.ss_sp = stack_;
  start_.uc_stack.ss_size = stack_bytes;
  start_.uc_link = nullptr;
  makecontext(&start_, entry, 0);
}

#ifdef FAKE_GPU_FINDS_RACES

// ThreadSanitizer follows longjmp(), but not swapcontext().
void Fibre::switch_fibre(Fibre& from, Fibre& to) {
  constexpr unsigned no_order = 1;
  if (from.stack_ == nullptr) from.sanitizer_ = __tsan_get_current_fiber();
  __tsan_switch_to_fiber(to.sanitizer_, no_order);
  swapcontext(&from.start_, &to.start_);
}

void Fibre::finish_switch() {}

Agent::~Agent() {
  if (sanitizer_ != nullptr) __tsan_destroy_fiber(sanitizer_);
}

void* Agent::enter() {
  if (sanitizer_ == nullptr) sanitizer_ = __tsan_create_fiber(0);
  void* const caller = __tsan_get_current_fiber();
  __tsan_switch_to_fiber(sanitizer_, 1);
  return caller;
}

void Agent::leave(void* caller) { __tsan_switch_to_fiber(caller, 1); }

void release(void* object) { __tsan_release(object); }
void acquire(void* object) { __tsan_acquire(object); }
void note_read(const void* address) { __tsan_read16(const_cast<void*>(address)); }
void note_write(void* address) { __tsan_write16(address); }

#else

// Call first on a fibre that was switched to.
void Fibre::finish_switch() {
#ifdef __SANITIZE_ADDRESS__
  bool const is_fibre = stack_ != nullptr;
  __sanitizer_finish_switch_fiber(sanitizer_, is_fibre ? &program_stack : nullptr,
                                  is_fibre ? &program_stack_bytes : nullptr);
#endif
}

// Of a function of its own: __builtin_longjmp() must not return into the function that it is called from. The
// library's longjmp() clears a whole stack's shadow in AddressSanitizer, which has taken half of a test's
// time.
__attribute__((noinline, no_sanitize_address)) static void jump(void** to) { __builtin_longjmp(to, 1); }

// After the first switch without a system call.
__attribute__((no_sanitize_address)) void Fibre::switch_fibre(Fibre& from, Fibre& to) {
#ifdef __SANITIZE_ADDRESS__
  __sanitizer_start_switch_fiber(&from.sanitizer_, to.stack_ != nullptr ? to.stack_ : program_stack,
                                 to.stack_ != nullptr ? stack_bytes : program_stack_bytes);
#endif
  if (__builtin_setjmp(from.at_) == 0) {
    bool const continues = to.started_ || to.stack_ == nullptr;
    to.started_ = true;
    if (continues) jump(to.at_);
    setcontext(&to.start_);
  }
  from.finish_switch();
}

Agent::~Agent() = default;
void* Agent::enter() { return nullptr; }
void Agent::leave(void*) {}
void release(void*) {}
void acquire(void*) {}
void note_read(const void*) {}
void note_write(void*) {}

#endif

}  // namespace fake_gpu
