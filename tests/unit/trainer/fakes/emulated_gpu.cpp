// SPDX-License-Identifier: Apache-2.0
#include "emulated_gpu.hpp"

#include <ucontext.h>

#include <csetjmp>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/common_interface_defs.h>
#endif

namespace fake_gpu {
namespace {

constexpr std::size_t stack_bytes = 1 << 17;

/// A stack to switch to and from; after the first switch without a system call.
struct Fibre {
  std::unique_ptr<unsigned char[]> stack;
  ucontext_t start{};
  jmp_buf at{};
  bool started = false;
  void* sanitizer = nullptr;
};

enum class State { ready, at_barrier, in_warp, done };
struct Copy {
  void* to;
  const void* from;
  bool valid;
};
struct Thread {
  Fibre fibre;
  Index index;
  State state = State::done;
  void* posted = nullptr;
  WarpFunction function = nullptr;
  std::vector<std::vector<Copy>> copies;  ///< groups; the last one is not committed
};

Fibre scheduler{nullptr, {}, {}, true, nullptr};  // the stack of launch()
std::vector<std::unique_ptr<Thread>> threads;     // reused by later launches
Thread* current = nullptr;
std::array<int, 32> lanes_waiting{};  // by warp: lanes that wait for the others
std::size_t thread_count = 0;
std::vector<unsigned char> shared;
const std::function<void()>* body = nullptr;
std::string launch_error;

#ifdef __SANITIZE_ADDRESS__
const void* launch_stack = nullptr;  // launch()'s stack, known once the first fibre has left it
std::size_t launch_stack_bytes = 0;
void start_switch(Fibre& from, const Fibre& to) {
  __sanitizer_start_switch_fiber(&from.sanitizer, to.stack ? to.stack.get() : launch_stack,
                                 to.stack ? stack_bytes : launch_stack_bytes);
}
void finish_switch(Fibre& at) {
  const bool on_thread_stack = &at != &scheduler;
  __sanitizer_finish_switch_fiber(at.sanitizer, on_thread_stack ? &launch_stack : nullptr,
                                  on_thread_stack ? &launch_stack_bytes : nullptr);
}
#else
void start_switch(Fibre&, const Fibre&) {}
void finish_switch(Fibre&) {}
#endif

void run_thread();

void switch_to(Fibre& from, Fibre& to) {
  start_switch(from, to);
  if (_setjmp(from.at) == 0) {
    if (to.started) _longjmp(to.at, 1);
    to.started = true;
    setcontext(&to.start);
  }
  finish_switch(from);
}

void run_thread() {
  finish_switch(current->fibre);
  for (;;) {  // one thread of each block
    (*body)();
    current->state = State::done;
    switch_to(current->fibre, scheduler);
  }
}

void prepare(Thread& thread, unsigned number) {
  const bool was_interrupted = thread.state != State::done;
  thread.index = {number, 0, 0};
  thread.state = State::ready;
  thread.copies.resize(1);
  thread.copies[0].clear();
  Fibre& fibre = thread.fibre;
  if (fibre.started && !was_interrupted) return;
  if (!fibre.stack) fibre.stack = std::make_unique<unsigned char[]>(stack_bytes);
  fibre.started = false;
  getcontext(&fibre.start);
  fibre.start.uc_stack.ss_sp = fibre.stack.get();
  fibre.start.uc_stack.ss_size = stack_bytes;
  fibre.start.uc_link = nullptr;
  makecontext(&fibre.start, run_thread, 0);
}

void run(Thread& thread) {
  current = &thread;
  threadIdx = thread.index;
  switch_to(scheduler, thread.fibre);
}

void wait(State state) {
  current->state = state;
  switch_to(current->fibre, scheduler);
}

/// Releases all threads if all wait at the barrier.
bool release_barrier() {
  for (std::size_t i = 0; i < thread_count; ++i) {
    if (threads[i]->state != State::at_barrier) return false;
  }
  for (std::size_t i = 0; i < thread_count; ++i) threads[i]->state = State::ready;
  return true;
}

void run_block(bool reverse_order) {
  std::fill(shared.begin(), shared.end(), static_cast<unsigned char>(0xff));
  lanes_waiting = {};
  for (unsigned i = 0; i < thread_count; ++i) prepare(*threads[i], i);
  for (;;) {
    bool ran = false;
    for (std::size_t i = 0; i < thread_count; ++i) {
      Thread& thread = *threads[reverse_order ? thread_count - 1 - i : i];
      if (thread.state != State::ready) continue;
      run(thread);
      if (!launch_error.empty()) throw std::logic_error(std::exchange(launch_error, ""));
      ran = true;
    }
    if (ran || release_barrier()) continue;
    for (std::size_t i = 0; i < thread_count; ++i) {
      if (threads[i]->state != State::done)
        throw std::logic_error("thread " + std::to_string(i) + " waits for others that never come");
    }
    return;
  }
}

void perform(const Copy& copy) {
  if (copy.valid) {
    std::memcpy(copy.to, copy.from, 16);
  } else {
    std::memset(copy.to, 0, 16);
  }
}

}  // namespace

void launch(const Launch& launch, const std::function<void()>& thread) {
  if (launch.threads == 0 || launch.threads > 1024 || launch.threads % 32 != 0)
    throw std::logic_error("a block has whole warps and at most 1024 threads");
  thread_count = launch.threads;
  while (threads.size() < thread_count) threads.push_back(std::make_unique<Thread>());
  std::vector<unsigned char>(launch.shared_bytes).swap(shared);
  body = &thread;
  gridDim = launch.grid;
  blockDim = {launch.threads, 1, 1};
  for (blockIdx.z = 0; blockIdx.z < gridDim.z; ++blockIdx.z) {
    for (blockIdx.y = 0; blockIdx.y < gridDim.y; ++blockIdx.y) {
      for (blockIdx.x = 0; blockIdx.x < gridDim.x; ++blockIdx.x) run_block(launch.reverse_order);
    }
  }
}

unsigned char* shared_memory() { return shared.data(); }

void sync_block() { wait(State::at_barrier); }

void run_on_warp(void* argument, WarpFunction function) {
  current->posted = argument;
  current->function = function;
  const std::size_t warp = threadIdx.x / 32;
  if (++lanes_waiting[warp] < 32) return wait(State::in_warp);
  lanes_waiting[warp] = 0;
  Lanes lanes{};
  for (std::size_t i = 0; i < lanes.size(); ++i) {
    const Thread& lane = *threads[warp * 32 + i];
    if (lane.function != function) launch_error = "lanes of a warp wait for different things";
    lanes[i] = lane.posted;
  }
  if (!launch_error.empty()) return wait(State::in_warp);
  function(lanes);
  for (std::size_t i = 0; i < lanes.size(); ++i) threads[warp * 32 + i]->state = State::ready;
}

void enqueue_copy(void* to, const void* from, bool valid) {
  current->copies.back().push_back({to, from, valid});
}

void commit_copies() { current->copies.emplace_back(); }

void wait_for_copies(std::size_t groups) {
  auto& copies = current->copies;
  while (copies.size() > groups + 1) {
    for (const Copy& copy : copies.front()) perform(copy);
    copies.erase(copies.begin());
  }
}

}  // namespace fake_gpu
