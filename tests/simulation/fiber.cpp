// SPDX-License-Identifier: Apache-2.0
#include "fiber.hpp"

#include <cxxabi.h>
#include <sys/mman.h>

#include <cstring>
#include <system_error>
#include <utility>

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/common_interface_defs.h>
#endif

namespace simulator {
namespace {

constexpr std::size_t stack_bytes = 1 << 20;  // the system gives pages as they are used
constexpr std::size_t guard_bytes = 4096;

Fiber* entering = nullptr;

asio::detail::thread_info_base& no_io_context() {
  static asio::detail::thread_info_base info;
  return info;
}

void start_switch([[maybe_unused]] void** frames, [[maybe_unused]] const void* stack,
                  [[maybe_unused]] std::size_t bytes) {
#ifdef __SANITIZE_ADDRESS__
  __sanitizer_start_switch_fiber(frames, stack, bytes);
#endif
}

void finish_switch([[maybe_unused]] void* frames, [[maybe_unused]] const void** stack,
                   [[maybe_unused]] std::size_t* bytes) {
#ifdef __SANITIZE_ADDRESS__
  __sanitizer_finish_switch_fiber(frames, stack, bytes);
#endif
}

}  // namespace

Fiber::Fiber()
    : stack_(::mmap(nullptr, stack_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1,
                    0)) {
  if (stack_ == MAP_FAILED || ::mprotect(stack_, guard_bytes, PROT_NONE) != 0)
    throw std::system_error(errno, std::generic_category(), "no memory for a stack");
  ::getcontext(&own_);
  own_.uc_stack.ss_sp = stack_;
  own_.uc_stack.ss_size = stack_bytes;
  ::makecontext(&own_, &Fiber::enter, 0);
}

Fiber::~Fiber() { ::munmap(stack_, stack_bytes); }

void Fiber::start(std::function<void()> call) {
  call_ = std::move(call);
  entering = this;
  switch_in();
}

void Fiber::resume() { switch_in(); }

void Fiber::switch_in() {
  below_.emplace(nullptr, no_io_context());
  swap_exceptions(exceptions_);
  start_switch(&caller_frames_, stack_, stack_bytes);
  ::swapcontext(&caller_, &own_);
  finish_switch(caller_frames_, nullptr, nullptr);
  swap_exceptions(exceptions_);
  below_.reset();
}

// Runs one call after the other: between them it pauses.
void Fiber::enter() {
  auto& fiber = *entering;
  finish_switch(nullptr, &fiber.caller_stack_, &fiber.caller_stack_bytes_);
  for (;;) {
    fiber.call_();
    fiber.call_ = nullptr;
    fiber.pause();
  }
}

void Fiber::pause() {
  above_.emplace(nullptr, no_io_context());
  start_switch(&own_frames_, caller_stack_, caller_stack_bytes_);
  ::swapcontext(&own_, &caller_);
  finish_switch(own_frames_, &caller_stack_, &caller_stack_bytes_);
  above_.reset();
}

void Fiber::swap_exceptions(Exceptions& saved) {
  void* const globals = abi::__cxa_get_globals();
  Exceptions current;
  std::memcpy(static_cast<void*>(&current), globals, sizeof current);
  std::memcpy(globals, &saved, sizeof saved);
  saved = current;
}

}  // namespace simulator
