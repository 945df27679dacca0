// SPDX-License-Identifier: Apache-2.0
#include "control_plane/kv_store.hpp"

namespace muster::control {

bool KvStore::put(const std::string& name, protocol::Blob value) {
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
    respond_(waiter->rank, waiter->id, {true, stored});
  }
  return true;
}

bool KvStore::get(int rank, const protocol::Get& request) {
  if (auto const found = values_.find(request.name); found != values_.end()) {
    respond_(rank, request.id, {true, found->second});
    return true;
  }
  if (waiter_counts_[rank] >= max_waiters) return false;
  ++waiter_counts_[rank];
  auto const waiter = std::make_shared<Waiter>(io_);
  waiter->rank = rank;
  waiter->id = request.id;
  waiter->timer.expires_after(request.wait);
  auto const at = waiters_.emplace(request.name, waiter);
  waiter->timer.async_wait([this, at, weak = std::weak_ptr(waiter)](const asio::error_code& error) {
    auto const expired = weak.lock();  // null: answered or cancelled, and no longer in the map
    if (error || !expired) return;
    waiters_.erase(at);
    --waiter_counts_[expired->rank];
    respond_(expired->rank, expired->id, {});
  });
  return true;
}

}  // namespace muster::control
