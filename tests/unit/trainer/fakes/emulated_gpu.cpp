// SPDX-License-Identifier: Apache-2.0
#include "emulated_gpu.hpp"

#include <cstring>
#include <memory>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "fibre.hpp"

namespace fake_gpu {
namespace {

enum class State { ready, at_barrier, in_warp, done };

struct Copy {
  void* to;
  const void* from;
  bool valid;
};

void perform(const Copy& copy) {
  if (copy.valid) {
    std::memcpy(copy.to, copy.from, 16);
  } else {
    std::memset(copy.to, 0, 16);
  }
}

/// A thread's asynchronous copies: done at the last possible moment, when the thread waits for them. In a
/// build that looks for races they are done at the first one, by an agent that nothing orders until then.
class Copies {
 public:
  void reset() {
    groups_.resize(1);
    groups_[0].clear();
    committed_ = waited_ = 0;
  }
  void enqueue(const Copy& copy) {
    if (!finds_races) return groups_.back().push_back(copy);
    release(&issued_);
    agent_.run([&] {
      acquire(&issued_);
      if (copy.valid) note_read(copy.from);
      note_write(copy.to);
      for (int i = 0; i < 2; ++i)
        static_cast<volatile std::uint64_t*>(copy.to)[i] =
            copy.valid ? static_cast<const volatile std::uint64_t*>(copy.from)[i] : 0;
    });
  }
  void commit() {
    if (!finds_races) return groups_.emplace_back(), void();
    agent_.run([&] { release(&done_[committed_ % done_.size()]); });
    ++committed_;
  }
  void wait(std::size_t remaining) {
    for (; finds_races && waited_ + remaining < committed_; ++waited_)
      acquire(&done_[waited_ % done_.size()]);
    while (groups_.size() > remaining + 1) {
      for (const Copy& copy : groups_.front()) perform(copy);
      groups_.erase(groups_.begin());
    }
  }

 private:
  std::vector<std::vector<Copy>> groups_;  // the last one is not committed
  Agent agent_;
  char issued_ = 0;
  std::array<char, 64> done_{};
  std::size_t committed_ = 0;
  std::size_t waited_ = 0;
};

struct Thread {
  Fibre fibre;
  Index index;
  State state = State::done;
  void* posted = nullptr;
  WarpFunction function = nullptr;
  Copies copies;
  std::size_t fences = 0;  ///< that it has passed
};

Fibre scheduler;  // the stack of launch()
// Used again by later blocks and launches, since a new thread of ThreadSanitizer takes more than a
// millisecond. A thread is ordered after that of an earlier block with the same set. Where races matter, each
// block therefore takes one of the other sets at random: neighbours always have different ones, and two other
// blocks in most launches.
std::array<std::vector<std::unique_ptr<Thread>>, finds_races ? 4 : 1> thread_sets;
std::size_t set_in_use = 0;
std::minstd_rand random_set;
Thread* current = nullptr;
std::array<int, 32> lanes_waiting{};  // by warp: lanes that wait for the others
std::size_t thread_count = 0;
unsigned char* shared = nullptr;
const std::function<void()>* body = nullptr;
const char* launch_error = nullptr;  // of a warp

// What is released to: only the addresses count.
std::array<char, 4> barriers;
std::array<std::array<char, 4>, 32> warp_fences;
char block_begins, block_ends;
std::size_t barriers_passed = 0;

void run_thread() {
  current->fibre.finish_switch();
  for (;;) {  // one thread of each block
    acquire(&block_begins);
    (*body)();
    release(&block_ends);
    current->state = State::done;
    Fibre::switch_fibre(current->fibre, scheduler);
  }
}

void prepare(Thread& thread, unsigned number) {
  const bool was_interrupted = thread.state != State::done;
  thread.index = {number, 0, 0};
  thread.state = State::ready;
  thread.copies.reset();
  thread.fences = 0;
  if (was_interrupted || !thread.fibre.is_prepared()) thread.fibre.prepare(run_thread);
}

void run(Thread& thread) {
  current = &thread;
  threadIdx = thread.index;
  Fibre::switch_fibre(scheduler, thread.fibre);
}

void wait(State state) {
  current->state = state;
  Fibre::switch_fibre(current->fibre, scheduler);
}

Thread& thread_at(std::size_t number) { return *thread_sets[set_in_use][number]; }

/// Releases all threads if all wait at the barrier.
bool release_barrier() {
  for (std::size_t i = 0; i < thread_count; ++i) {
    if (thread_at(i).state != State::at_barrier) return false;
  }
  for (std::size_t i = 0; i < thread_count; ++i) thread_at(i).state = State::ready;
  ++barriers_passed;
  return true;
}

void run_block(bool reverse_order) {
  lanes_waiting = {};
  if (finds_races)
    set_in_use = (set_in_use + 1 + random_set() % (thread_sets.size() - 1)) % thread_sets.size();
  auto& threads = thread_sets[set_in_use];
  while (threads.size() < thread_count) threads.push_back(std::make_unique<Thread>());
  release(&block_begins);
  for (unsigned i = 0; i < thread_count; ++i) prepare(thread_at(i), i);
  for (;;) {
    bool ran = false;
    for (std::size_t i = 0; i < thread_count; ++i) {
      Thread& thread = thread_at(reverse_order ? thread_count - 1 - i : i);
      if (thread.state != State::ready) continue;
      run(thread);
      if (launch_error != nullptr) throw std::logic_error(std::exchange(launch_error, nullptr));
      ran = true;
    }
    if (ran || release_barrier()) continue;
    for (std::size_t i = 0; i < thread_count; ++i) {
      if (thread_at(i).state != State::done)
        throw std::logic_error("thread " + std::to_string(i) + " waits for others that never come");
    }
    return;
  }
}

/// The shared memory of one block: as large as the launch requests, which AddressSanitizer checks.
class SharedMemory {
 public:
  explicit SharedMemory(std::size_t bytes) : bytes_(bytes) {
    shared = finds_races ? map_memory(bytes + 1) : new unsigned char[bytes];
    std::memset(shared, 0xff, bytes);
  }
  ~SharedMemory() {
    finds_races ? unmap_memory(shared, bytes_ + 1) : delete[] shared;
    shared = nullptr;
  }
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;

 private:
  std::size_t bytes_;
};

}  // namespace

void launch(const Launch& launch, const std::function<void()>& thread) {
  if (launch.threads == 0 || launch.threads > 1024 || launch.threads % 32 != 0)
    throw std::logic_error("a block has whole warps and at most 1024 threads");
  thread_count = launch.threads;
  body = &thread;
  gridDim = launch.grid;
  blockDim = {launch.threads, 1, 1};
  for (blockIdx.z = 0; blockIdx.z < gridDim.z; ++blockIdx.z) {
    for (blockIdx.y = 0; blockIdx.y < gridDim.y; ++blockIdx.y) {
      for (blockIdx.x = 0; blockIdx.x < gridDim.x; ++blockIdx.x) {
        SharedMemory const memory(launch.shared_bytes);
        run_block(launch.reverse_order);
      }
    }
  }
  acquire(&block_ends);
}

unsigned char* shared_memory() { return shared; }

void sync_block() {
  auto& barrier = barriers[barriers_passed % barriers.size()];
  release(&barrier);
  wait(State::at_barrier);
  acquire(&barrier);
}

void run_on_warp(void* argument, WarpFunction function) {
  current->posted = argument;
  current->function = function;
  const std::size_t warp = threadIdx.x / 32;
  if (++lanes_waiting[warp] < 32) return wait(State::in_warp);
  lanes_waiting[warp] = 0;
  Lanes lanes{};
  for (std::size_t i = 0; i < lanes.size(); ++i) {
    const Thread& lane = thread_at(warp * 32 + i);
    if (lane.function != function) launch_error = "lanes of a warp wait for different things";
    lanes[i] = lane.posted;
  }
  if (launch_error != nullptr) return wait(State::in_warp);
  function(lanes);
  for (std::size_t i = 0; i < lanes.size(); ++i) thread_at(warp * 32 + i).state = State::ready;
}

void sync_warp() {
  auto& fences = warp_fences[threadIdx.x / 32];
  auto& fence = fences[current->fences++ % fences.size()];
  release(&fence);
  run_on_warp(nullptr, [](const Lanes&) {});
  acquire(&fence);
}

void enqueue_copy(void* to, const void* from, bool valid) { current->copies.enqueue({to, from, valid}); }
void commit_copies() { current->copies.commit(); }
void wait_for_copies(std::size_t groups) { current->copies.wait(groups); }

}  // namespace fake_gpu
