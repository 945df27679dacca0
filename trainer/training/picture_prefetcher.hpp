// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

#include "training/picture_sampler.hpp"

namespace muster {

/// Prepares samples on threads of its own before they are needed. What is needed and not begun, the thread
/// that takes it prepares itself, with its team. Functions are called by one thread.
class PicturePrefetcher {
 public:
  struct Id {
    bool held_out = false;
    std::uint64_t number = 0;
    auto operator<=>(const Id&) const = default;
  };
  using Prepare = std::function<PictureSample(const Id&)>;
  /// `prepare` is called by several threads at once and throws nothing. `threads` may be 0.
  PicturePrefetcher(Prepare prepare, int threads);
  ~PicturePrefetcher();
  PicturePrefetcher(const PicturePrefetcher&) = delete;
  PicturePrefetcher& operator=(const PicturePrefetcher&) = delete;

  /// The threads prepare these samples, in this order, and no longer those that were asked for before; those
  /// that are ready and not asked for again are dropped.
  void prefetch(std::span<const Id> ids);
  /// The samples, in this order. `team`: OpenMP threads that help.
  std::vector<PictureSample> take(std::span<const Id> ids, int team);

 private:
  enum class State { queued, begun, ready };
  struct Slot {
    State state = State::queued;
    bool wanted = true;
    PictureSample sample;
  };
  using Slots = std::map<Id, std::shared_ptr<Slot>>;

  void run();
  void prepare(const Id& id, Slot& slot);
  bool begin(Slot& slot);

  Prepare prepare_;
  std::mutex mutex_;
  std::condition_variable queued_, ready_;
  Slots slots_;
  std::deque<Id> queue_;
  bool stop_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace muster
