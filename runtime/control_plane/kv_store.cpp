// SPDX-License-Identifier: Apache-2.0
#include "control_plane/kv_store.hpp"

#include "deadline.hpp"

namespace muster::control {

bool KvStore::put(const std::string& name, std::vector<std::uint8_t> value) {
  auto& stored = values_[name];
  bytes_ = bytes_ + value.size() - stored.size();
  stored = std::move(value);
  if (bytes_ + values_.size() * max_key_bytes > max_store_bytes) return false;
  auto const [first, last] = waiters_.equal_range(name);
  std::vector<std::shared_ptr<Waiter>> ready;
  for (auto at = first; at != last; ++at) ready.push_back(at->second);
  waiters_.erase(first, last);
  for (const auto& waiter : ready) {
    --waiter_counts_[waiter->rank];
    respond(*waiter, &stored);
  }
  return true;
}

bool KvStore::get(int rank, const std::string& name, std::uint64_t id, std::chrono::milliseconds wait) {
  auto const waiter = std::make_shared<Waiter>(io_);
  waiter->rank = rank;
  waiter->id = id;
  if (auto const found = values_.find(name); found != values_.end()) {
    respond(*waiter, &found->second);
    return true;
  }
  if (waiter_counts_[rank] >= max_waiters) return false;
  ++waiter_counts_[rank];
  waiter->timer.expires_after(Deadline(wait).length());
  auto const at = waiters_.emplace(name, waiter);
  waiter->timer.async_wait([this, at, weak = std::weak_ptr(waiter)](const asio::error_code& error) {
    auto const expired = weak.lock();  // null: answered or cancelled, and no longer in the map
    if (error || !expired) return;
    waiters_.erase(at);
    --waiter_counts_[expired->rank];
    respond(*expired, nullptr);
  });
  return true;
}

void KvStore::respond(const Waiter& waiter, const std::vector<std::uint8_t>* value) {
  send_(waiter.rank, {{"is", "got"},
                      {"id", waiter.id},
                      {"found", value != nullptr},
                      {"value", Message::binary(value != nullptr ? *value : std::vector<std::uint8_t>{})}});
}

}  // namespace muster::control
