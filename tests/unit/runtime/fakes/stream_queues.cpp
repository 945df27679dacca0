// SPDX-License-Identifier: Apache-2.0
#include "stream_queues.hpp"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "fake_cuda.hpp"

namespace stream_queues {
namespace {

struct Work {
  std::function<bool()> run;  // false: it cannot run yet
  bool is_polled = false;
};

struct Queue {
  std::deque<Work> work;
  std::thread::id thread;   // the last that enqueued
  std::uint64_t speed = 0;  // the fastest stream whose work can run goes first
};

/// A position in a queue.
struct Position {
  std::shared_ptr<Queue> queue;
  bool is_reached = false;
};
using PositionPointer = std::shared_ptr<Position>;

// Guards all variables. Never destroyed: a job may be a static object.
std::mutex mutex;
auto& queues = *new std::vector<std::shared_ptr<Queue>>;  // in the order of first use
auto& queue_by_stream = *new std::map<void*, std::shared_ptr<Queue>>;
auto& recorded = *new std::map<void*, PositionPointer>;

/// The random choices of one seed.
struct Choices {
  std::string seed;
  std::mt19937_64 random;
  std::uint64_t eager_percent = 0;   // of calls after which some work runs
  std::uint64_t change_percent = 0;  // of choices before which a stream's speed changes
};
auto& choices = *new Choices;

using Clock = std::chrono::steady_clock;
constexpr std::chrono::milliseconds host_silence{5};
Clock::time_point last_call;  // of the host, that enqueued or waited
bool process_ends = false;

thread_local int default_stream;
thread_local bool has_enqueued = false;
thread_local void* last_queried = nullptr;  // an event

bool is_late() { return fake_cuda::get_env("FAKE_CUDA") == "late"; }

/// Whether a seed decides the order. Begins the choices of a seed that was not used last.
bool is_random() {
  auto const seed = fake_cuda::get_env("FAKE_CUDA_SEED");
  if (seed != choices.seed) {
    auto const number = std::strtoull(seed.c_str(), nullptr, 10);
    auto const rank = std::strtoull(fake_cuda::get_env("RANK").c_str(), nullptr, 10);
    choices = {seed, std::mt19937_64(number * 1000 + rank), number % 4 * 25, number % 3 * 30 + 2};
  }
  return !seed.empty() && !is_late();
}

std::uint64_t choose(std::uint64_t below) { return choices.random() % below; }

std::shared_ptr<Queue>& queue_of(void* stream) {
  auto& queue = queue_by_stream[stream != nullptr ? stream : &default_stream];
  if (!queue) queues.push_back(queue = std::make_shared<Queue>());
  return queue;
}

/// Does the queue's first work, unless it has none or that cannot run yet.
bool step(Queue& queue) {
  if (queue.work.empty() || !queue.work.front().run()) return false;
  queue.work.pop_front();
  return true;
}

/// The first work of the fastest stream that has some that can run. Now and then a stream's speed changes, so
/// that with some seeds one stream stays far behind the others. Late work with other ranks comes after all
/// other work, that of streams in use for longer first: what a message is sent from may have been written
/// again by then.
bool step_any() {
  std::vector<Queue*> all;
  for (const auto& queue : queues)
    if (!queue->work.empty()) all.push_back(queue.get());
  for (Queue* const queue : all)
    if (queue->speed == 0 || choose(100) < choices.change_percent) queue->speed = 1 + choose(1000);
  auto const priority = [late = is_late()](const Queue* queue) {
    return late && queue->work.front().is_polled ? 0 : queue->speed;
  };
  std::stable_sort(all.begin(), all.end(),
                   [&](const Queue* a, const Queue* b) { return priority(a) > priority(b); });
  for (Queue* const queue : all) {
    if (step(*queue)) return true;
    // What other ranks take part in takes a while, in which slower streams should not catch up.
    if (queue->work.front().is_polled && choose(20) != 0) return false;
  }
  return false;
}

/// What a GPU may have done until the host's next call.
void run_some() {
  while (is_random() && choose(100) < choices.eager_percent && step_any()) {
  }
}

void push(void* stream, std::function<bool()> work, bool is_polled = false) {
  auto& queue = *queue_of(stream);
  queue.work.push_back({std::move(work), is_polled});
  queue.thread = std::this_thread::get_id();
  has_enqueued = true;
  last_call = Clock::now();
  run_some();
}

PositionPointer push_position(const std::shared_ptr<Queue>& queue) {
  auto position = std::make_shared<Position>(Position{queue, queue->work.empty()});
  if (!position->is_reached) queue->work.push_back({[position] { return position->is_reached = true; }});
  return position;
}

/// Some work towards a position. False if none can run now. Late work of other streams runs only if the
/// position's own stream cannot go on.
bool step_towards(const PositionPointer& position) {
  return (!is_random() && step(*position->queue)) || step_any();
}

bool finish(const PositionPointer& position, bool waits = true) {
  std::unique_lock lock(mutex);
  if (position->is_reached) return false;
  while (!position->is_reached) {
    last_call = Clock::now();
    if (step_towards(position)) continue;
    if (!waits) break;
    lock.unlock();
    std::this_thread::sleep_for(std::chrono::microseconds{20});  // for other ranks
    lock.lock();
  }
  return true;
}

PositionPointer end_of(void* stream) {
  std::lock_guard const lock(mutex);
  return push_position(queue_of(stream));
}

PositionPointer last_record(void* event) {
  std::lock_guard const lock(mutex);
  auto const found = recorded.find(event);
  return found != recorded.end() ? found->second : std::make_shared<Position>(Position{nullptr, true});
}

/// Work that the host does not wait for.
void run_without_host() {
  for (;;) {
    std::this_thread::sleep_for(std::chrono::microseconds{200});
    std::lock_guard const lock(mutex);
    if (process_ends) return;
    if (Clock::now() - last_call > host_silence) step_any();
  }
}

// Ranks that are threads have the same queues, and whichever waits does the work of all.
void run_without_host_from_now_on() {
  static bool const is_started = [] {
    if (std::strtoull(fake_cuda::get_env("WORLD_SIZE").c_str(), nullptr, 10) < 2) return false;
    std::thread(run_without_host).detach();
    return std::atexit([] {
             std::lock_guard const lock(mutex);
             process_ends = true;
           }) == 0;
  }();
  static_cast<void>(is_started);
}

bool runs_at_once() {
  std::lock_guard const lock(mutex);
  return !is_late() && !is_random();
}

}  // namespace

void enqueue(void* stream, std::function<void()> work) {
  if (runs_at_once()) {
    finish_all();  // what another mode left
    return work();
  }
  std::lock_guard const lock(mutex);
  push(stream, [work = std::move(work)] {
    work();
    return true;
  });
}

bool enqueue_polled(void* stream, std::function<bool()> poll) {
  if (runs_at_once()) return false;
  run_without_host_from_now_on();
  std::lock_guard const lock(mutex);
  push(stream, std::move(poll), true);
  return true;
}

void record(void* event, void* stream) {
  std::lock_guard const lock(mutex);
  recorded[event] = push_position(queue_of(stream));
  run_some();
}

void wait_event(void* stream, void* event) {
  auto const position = last_record(event);
  std::lock_guard const lock(mutex);
  if (!position->is_reached) push(stream, [position] { return position->is_reached; });
}

void destroy(void* handle) {
  std::lock_guard const lock(mutex);
  recorded.erase(handle);
  queue_by_stream.erase(handle);
  std::erase_if(queues, [](const auto& queue) { return queue.use_count() == 1 && queue->work.empty(); });
}

bool event_is_done(void* event) {
  auto const position = last_record(event);
  std::lock_guard const lock(mutex);
  return position->is_reached;
}

bool query_event(void* event) {
  auto const position = last_record(event);
  std::lock_guard const lock(mutex);
  // A thread that only watches others' work changes nothing.
  if (!has_enqueued || position->is_reached) return position->is_reached;
  bool const is_repeated = std::exchange(last_queried, event) == event;
  if (is_random()) {
    step_any();
  } else if (is_repeated) {
    step_towards(position);
  }
  return position->is_reached;
}

bool query_stream(void* stream) { return !finish(end_of(stream), false); }
bool finish_stream(void* stream) { return finish(end_of(stream)); }

bool finish_all() {
  std::vector<PositionPointer> ends;
  {
    std::lock_guard const lock(mutex);
    for (const auto& queue : queues)
      if (queue->thread == std::this_thread::get_id()) ends.push_back(push_position(queue));
  }
  bool waited = false;
  for (const auto& end : ends) waited = finish(end) || waited;
  return waited;
}

}  // namespace stream_queues
