// SPDX-License-Identifier: Apache-2.0
#include "training/picture_prefetcher.hpp"

#include <algorithm>

namespace muster {

PicturePrefetcher::PicturePrefetcher(Prepare prepare, int threads) : prepare_(std::move(prepare)) {
  for (int i = 0; i < threads; ++i) threads_.emplace_back([this] { run(); });
}

PicturePrefetcher::~PicturePrefetcher() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  queued_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void PicturePrefetcher::run() {
  std::unique_lock lock(mutex_);
  while (true) {
    queued_.wait(lock, [this] { return stop_ || !queue_.empty(); });
    if (stop_) return;
    const Id id = queue_.front();
    queue_.pop_front();
    const auto found = slots_.find(id);
    if (found == slots_.end() || found->second->state != State::queued) continue;
    const std::shared_ptr<Slot> slot = found->second;
    slot->state = State::begun;
    lock.unlock();
    prepare(id, *slot);
    lock.lock();
  }
}

void PicturePrefetcher::prepare(const Id& id, Slot& slot) {
  PictureSample sample = prepare_(id);
  {
    const std::lock_guard lock(mutex_);
    slot.sample = std::move(sample);
    slot.state = State::ready;
  }
  ready_.notify_one();
}

bool PicturePrefetcher::begin(Slot& slot) {
  const std::lock_guard lock(mutex_);
  if (slot.state != State::queued) return false;
  slot.state = State::begun;
  return true;
}

void PicturePrefetcher::prefetch(std::span<const Id> ids) {
  if (threads_.empty()) return;
  {
    const std::lock_guard lock(mutex_);
    Slots kept;
    queue_.clear();
    for (const Id& id : ids) {
      const auto found = slots_.find(id);
      auto& slot = kept[id];
      if (!slot) slot = found != slots_.end() ? found->second : std::make_shared<Slot>();
      if (slot->state == State::queued) queue_.push_back(id);
    }
    slots_ = std::move(kept);  // a thread that has begun a dropped sample keeps its slot
  }
  queued_.notify_all();
}

std::vector<PictureSample> PicturePrefetcher::take(std::span<const Id> ids, int team) {
  std::vector<std::shared_ptr<Slot>> slots;
  {
    const std::lock_guard lock(mutex_);
    for (const Id& id : ids) {
      const auto found = slots_.find(id);
      slots.push_back(found != slots_.end() ? found->second : std::make_shared<Slot>());
      if (found != slots_.end()) slots_.erase(found);
    }
  }
  const auto count = static_cast<std::ptrdiff_t>(ids.size());
#pragma omp parallel for schedule(dynamic) num_threads(team)
  for (std::ptrdiff_t i = 0; i < count; ++i) {
    Slot& slot = *slots[static_cast<std::size_t>(i)];
    if (begin(slot)) prepare(ids[static_cast<std::size_t>(i)], slot);
  }
  std::vector<PictureSample> samples;
  std::unique_lock lock(mutex_);
  for (const auto& slot : slots) {
    ready_.wait(lock, [&slot] { return slot->state == State::ready; });
    samples.push_back(std::move(slot->sample));
  }
  return samples;
}

}  // namespace muster
