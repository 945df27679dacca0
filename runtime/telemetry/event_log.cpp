// SPDX-License-Identifier: Apache-2.0
#include "telemetry/event_log.hpp"

#include <fmt/format.h>
#include <pthread.h>
#include <sched.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <new>
#include <set>

#include "deadline.hpp"

namespace muster::observe {
namespace {

constexpr std::size_t max_phases = 64;

std::string this_thread_name() {
  if (syscall(SYS_gettid) == getpid()) return "main thread";
  std::array<char, 16> name{};  // the kernel's limit
  pthread_getname_np(pthread_self(), name.data(), name.size());
  return name.data();
}

}  // namespace

std::int64_t now() noexcept {
  timespec time{};
  clock_gettime(CLOCK_MONOTONIC, &time);
  return std::int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

const char* interned(std::string_view text) {
  static std::mutex mutex;
  static auto* const texts = new std::set<std::string, std::less<>>;  // events may outlive static objects
  std::lock_guard const lock(mutex);
  auto const found = texts->find(text);
  return (found == texts->end() ? texts->emplace(text).first : found)->c_str();
}

void Event::set_name(std::string_view name) {
  length = static_cast<std::uint8_t>(std::min(name.size(), text.size()));
  std::memcpy(text.data(), name.data(), length);
}

// Only its own thread writes it. `busy` and the log's `on_` make the reader wait for an event that is being
// written: the writer sets `busy` and then checks `on_`; the reader clears `on_` and then checks `busy`
// (Dekker's algorithm, which needs sequential consistency).
struct EventLog::ThreadLog {
  std::atomic<bool> busy{false};
  int number = 0;
  std::string name;
  std::array<Event, max_depth> open;
  int depth = 0;
  std::vector<std::unique_ptr<std::array<Event, chunk_events>>> chunks;
  std::uint64_t written = 0;
  std::uint64_t dropped = 0;  // never written

  std::size_t capacity() const { return chunks.size() * chunk_events; }
  Event& slot(std::uint64_t index) {
    auto const at = static_cast<std::size_t>(index % capacity());
    return (*chunks[at / chunk_events])[at % chunk_events];
  }
  std::size_t readable() const {
    return static_cast<std::size_t>(std::min<std::uint64_t>(written, capacity()));
  }
};

EventLog::EventLog(std::size_t chunks)
    : id_([] {
        static std::atomic<std::uint64_t> made{0};
        return ++made;
      }()),
      chunks_left_(static_cast<std::int64_t>(chunks)) {
  phases_.reserve(max_phases);
}

EventLog::~EventLog() = default;

EventLog& event_log() {
  static auto* const log = new EventLog;  // threads may outlive static objects
  return *log;
}

EventLog::ThreadLog* EventLog::this_thread_log() noexcept {
  struct Found {
    std::uint64_t id = 0;
    ThreadLog* log = nullptr;
  };
  thread_local Found found;
  if (found.id == id_) return found.log;
  try {
    std::lock_guard const lock(mutex_);
    ThreadLog* log = nullptr;
    if (logs_.size() < max_threads) {
      log = logs_.emplace_back(std::make_unique<ThreadLog>()).get();
      log->number = static_cast<int>(logs_.size()) - 1;
      log->name = this_thread_name();
    }
    found = {id_, log};
  } catch (const std::bad_alloc&) {
    found = {id_, nullptr};
  }
  return found.log;
}

void EventLog::start() noexcept {
  this_thread_log();
  on_ = true;
}

bool EventLog::take_chunk() noexcept {
  if (chunks_left_.fetch_sub(1) > 0) return true;
  chunks_left_.fetch_add(1);
  return false;
}

bool EventLog::begin(Category category, std::string_view name, const char* communicator, std::uint64_t number,
                     std::uint64_t bytes) noexcept {
  if (!on()) return false;
  ThreadLog* const log = this_thread_log();
  if (log == nullptr) return false;
  log->busy.store(true);
  bool const begins = on_.load() && log->depth < max_depth;
  if (begins) {
    Event& event = log->open[static_cast<std::size_t>(log->depth++)];
    event.end = 0;
    event.bytes = bytes;
    event.number = number;
    event.communicator = communicator;
    event.category = category;
    event.set_name(name);
    event.begin = now();
  } else if (on()) {
    ++log->dropped;
  }
  log->busy.store(false, std::memory_order_release);
  return begins;
}

void EventLog::end() noexcept {
  ThreadLog* const log = this_thread_log();
  if (log == nullptr) return;
  log->busy.store(true);
  if (on_.load() && log->depth > 0) {
    Event& event = log->open[static_cast<std::size_t>(--log->depth)];
    event.end = now();
    bool const grows = log->written == log->capacity() && take_chunk();
    try {
      if (grows) log->chunks.push_back(std::make_unique<std::array<Event, chunk_events>>());
    } catch (const std::bad_alloc&) {
    }
    if (log->capacity() > 0) {
      log->slot(log->written++) = event;
    } else {
      ++log->dropped;
    }
  }
  log->busy.store(false, std::memory_order_release);
}

void EventLog::add_phase(std::string_view name, std::int64_t begin, std::int64_t end) noexcept {
  std::lock_guard const lock(mutex_);
  if (phases_.size() >= max_phases || frozen()) return;
  Event event;
  event.begin = begin;
  event.end = end;
  event.category = Category::phase;
  event.set_name(name);
  phases_.push_back(event);
}

void EventLog::freeze() {
  on_ = false;
  std::lock_guard const lock(mutex_);
  Deadline const deadline(std::chrono::milliseconds{100});
  for (const auto& log : logs_) {
    while (log->busy.load() && !deadline.passed()) sched_yield();
  }
  frozen_ = true;
}

std::vector<EventLog::Thread> EventLog::threads() const {
  std::lock_guard const lock(mutex_);
  std::vector<Thread> threads;
  for (const auto& log : logs_) {
    Thread thread{log->number, log->name, 0, {}};
    if (!log->busy.load()) {
      thread.dropped = log->dropped + log->written - log->readable();
      thread.open.assign(log->open.begin(), log->open.begin() + log->depth);
    }
    threads.push_back(std::move(thread));
  }
  return threads;
}

std::vector<Event> EventLog::read(int thread, std::size_t from, std::size_t limit) const {
  std::lock_guard const lock(mutex_);
  std::vector<Event> events;
  if (static_cast<std::size_t>(thread) >= logs_.size()) return events;
  auto& log = *logs_[static_cast<std::size_t>(thread)];
  if (log.busy.load()) return events;
  auto const oldest = log.written - log.readable();
  for (std::size_t i = from; i < log.readable() && events.size() < limit; ++i)
    events.push_back(log.slot(oldest + i));
  return events;
}

std::vector<Event> EventLog::phases() const {
  std::lock_guard const lock(mutex_);
  return phases_;
}

}  // namespace muster::observe
