// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

namespace muster::observe {

/// Nanoseconds on the clock of events, CLOCK_MONOTONIC.
std::int64_t now() noexcept;

/// The same text for the rest of the process; equal texts are kept once.
const char* kept(std::string_view text);

enum class Category : std::uint8_t { phase, operation, bucket, user };

/// One span of a thread's time.
struct Event {
  std::int64_t begin = 0;
  std::int64_t end = 0;  ///< 0 while it is open
  std::uint64_t bytes = 0;
  std::uint64_t number = 0;  ///< of the operation in its communicator, 0: none; of the bucket in its reducer
  const char* communicator = nullptr;  ///< a kept() text; null: none
  Category category = Category::user;
  std::uint8_t length = 0;
  std::array<char, 46> text{};

  std::string_view name() const { return {text.data(), length}; }
  /// Longer names are cut.
  void set_name(std::string_view name);
};

/// What the threads of this process do, in a ring for each thread: writing takes no lock and waits for
/// nobody. Memory is bounded: when all is used a thread's newest events replace its oldest, which are
/// counted. Read once, after freeze().
class EventLog {
 public:
  static constexpr std::size_t chunk_events = 1024;
  static constexpr std::size_t max_threads = 256;
  static constexpr int max_depth = 32;

  /// `chunks`: of all threads together.
  explicit EventLog(std::size_t chunks = 256);
  ~EventLog();
  EventLog(const EventLog&) = delete;
  EventLog& operator=(const EventLog&) = delete;

  bool on() const noexcept { return on_.load(std::memory_order_relaxed); }
  /// By the thread that joins, which becomes the first one.
  void start() noexcept;

  /// Spans of a thread are inside one another: end() ends the one that began last. False when none began,
  /// because the log is off or the thread is too deep in spans already: then end() is not to be called.
  bool begin(Category category, std::string_view name, const char* communicator = nullptr,
             std::uint64_t number = 0, std::uint64_t bytes = 0) noexcept;
  void end() noexcept;
  /// A span that is over, from before start() too; at most 64 of them, of the thread that joins.
  void add_phase(std::string_view name, std::int64_t begin, std::int64_t end) noexcept;

  /// No event is written any more. Waits for those that are being written, for 100 ms at most.
  void freeze();
  bool frozen() const noexcept { return frozen_.load(); }

  struct Thread {
    int number = 0;
    std::string name;
    std::uint64_t dropped = 0;
    std::vector<Event> open;  ///< the outermost first
  };
  /// After freeze(). Not to be called while another thread reads.
  std::vector<Thread> threads() const;
  /// At most `limit` events of a thread from its `from`-th oldest on.
  std::vector<Event> read(int thread, std::size_t from, std::size_t limit) const;
  std::vector<Event> phases() const;

 private:
  struct ThreadLog;
  ThreadLog* of_this_thread() noexcept;
  bool take_chunk() noexcept;

  std::uint64_t const id_;  // another log may later lie at this one's address
  std::atomic<bool> on_{false};
  std::atomic<bool> frozen_{false};
  std::atomic<std::int64_t> chunks_left_;
  mutable std::mutex mutex_;
  std::vector<std::unique_ptr<ThreadLog>> logs_;
  std::vector<Event> phases_;
};

/// The one of this process.
EventLog& event_log();

}  // namespace muster::observe
