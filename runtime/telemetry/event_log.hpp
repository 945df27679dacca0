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

/// A copy of the text that lives until the process ends. Equal texts share one copy.
const char* interned(std::string_view text);

enum class Category : std::uint8_t { phase, operation, bucket, user };

/// One span of a thread's time.
struct Event {
  std::int64_t begin = 0;
  std::int64_t end = 0;  ///< 0 while the span is open
  std::uint64_t bytes = 0;
  std::uint64_t number =
      0;  ///< of the operation in its communicator (0: none), or of the bucket in its reducer
  const char* communicator = nullptr;  ///< an interned() text; null: none
  Category category = Category::user;
  std::uint8_t length = 0;
  std::array<char, 46> text{};

  std::string_view name() const { return {text.data(), length}; }
  /// Longer names are cut.
  void set_name(std::string_view name);
};

/// Records what the threads of this process do, in a ring buffer for each thread. A writer takes no lock and
/// waits for no thread. Memory is limited: when all is used, a thread's newest events replace its oldest, and
/// the log counts these as dropped. Read it once, after freeze().
class EventLog {
 public:
  static constexpr std::size_t chunk_events = 1024;
  static constexpr std::size_t max_threads = 256;
  static constexpr int max_depth = 32;

  /// `chunks`: number of chunks of all threads together.
  explicit EventLog(std::size_t chunks = 256);
  ~EventLog();
  EventLog(const EventLog&) = delete;
  EventLog& operator=(const EventLog&) = delete;

  bool on() const noexcept { return on_.load(std::memory_order_relaxed); }
  /// To be called by the thread that joins the job, which becomes thread 0.
  void start() noexcept;

  /// Spans of a thread are nested: end() ends the one that began last. Returns false when no span begins,
  /// because the log is off or max_depth is reached; end() must not be called then.
  bool begin(Category category, std::string_view name, const char* communicator = nullptr,
             std::uint64_t number = 0, std::uint64_t bytes = 0) noexcept;
  void end() noexcept;
  /// Adds a completed span of the joining thread, also from before start(). At most 64 of them are kept.
  void add_phase(std::string_view name, std::int64_t begin, std::int64_t end) noexcept;

  /// Stops recording. Waits at most 100 ms for events that are being written.
  void freeze();
  bool frozen() const noexcept { return frozen_.load(); }

  struct Thread {
    int number = 0;
    std::string name;
    std::uint64_t dropped = 0;
    std::vector<Event> open;  ///< open spans, outermost first
  };
  /// To be called after freeze(), and not while another thread reads.
  std::vector<Thread> threads() const;
  /// At most `limit` events of a thread, starting with number `from` counted from its oldest.
  std::vector<Event> read(int thread, std::size_t from, std::size_t limit) const;
  std::vector<Event> phases() const;

 private:
  struct ThreadLog;
  ThreadLog* this_thread_log() noexcept;
  bool take_chunk() noexcept;

  std::uint64_t const id_;  // another log may later have this one's address
  std::atomic<bool> on_{false};
  std::atomic<bool> frozen_{false};
  std::atomic<std::int64_t> chunks_left_;
  mutable std::mutex mutex_;
  std::vector<std::unique_ptr<ThreadLog>> logs_;
  std::vector<Event> phases_;
};

/// The log of this process.
EventLog& event_log();

}  // namespace muster::observe
