// SPDX-License-Identifier: Apache-2.0
#include "control_plane/kv_store.hpp"

#include <algorithm>
#include <optional>

#include "text/parse_number.hpp"

namespace muster::control {
namespace {

using protocol::Blob;
using protocol::StoreAction;
using protocol::Value;

std::optional<std::int64_t> parse_integer(const Blob& text) {
  return parse_number<std::int64_t>({reinterpret_cast<const char*>(text.data()), text.size()});
}

Blob to_text(std::int64_t number) {
  auto const text = std::to_string(number);
  return Blob(text.begin(), text.end());
}

// No value when one is no number, or the sum is too large.
std::optional<Blob> sum_of(const Blob* stored, const Blob& amount) {
  auto const before = stored == nullptr ? std::int64_t{0} : parse_integer(*stored);
  auto const added = parse_integer(amount);
  std::int64_t sum = 0;
  if (!before || !added || __builtin_add_overflow(*before, *added, &sum)) return std::nullopt;
  return to_text(sum);
}

}  // namespace

bool KvStore::put(const std::string& name, protocol::Blob value) {
  auto& stored = values_[name];
  bytes_ = bytes_ + value.size() - stored.size();
  stored = std::move(value);
  if (is_full()) return false;
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

bool KvStore::apply(int rank, const protocol::StoreOperation& request) {
  auto const response = change(request);
  if (is_full()) return false;
  respond_(rank, request.id, response);
  return true;
}

Value KvStore::change(const protocol::StoreOperation& request) {
  auto const found = values_.find(request.name);
  auto const* const stored = found == values_.end() ? nullptr : &found->second;
  auto const store = [&](Blob value) -> Value {
    put(request.name, value);
    return {true, std::move(value)};
  };
  switch (request.action) {
    case StoreAction::add: {
      auto sum = sum_of(stored, request.value);
      return sum ? store(std::move(*sum)) : Value{};
    }
    case StoreAction::append: {
      auto whole = stored == nullptr ? Blob{} : *stored;
      whole.insert(whole.end(), request.value.begin(), request.value.end());
      if (whole.size() > max_value_bytes) return {};
      store(std::move(whole));
      return {true, {}};
    }
    case StoreAction::compare_set:
      if (stored == nullptr ? request.expected.empty() : *stored == request.expected)
        return store(request.value);
      return stored == nullptr ? Value{} : Value{true, *stored};
    case StoreAction::contains:
      return {stored != nullptr, {}};
    case StoreAction::erase:
      if (stored == nullptr) return {};
      bytes_ -= stored->size();
      values_.erase(found);
      return {true, {}};
    case StoreAction::count:
      break;
  }
  return {true, to_text(std::count_if(values_.begin(), values_.end(), [&](const auto& entry) {
            return entry.first.starts_with(request.name);
          }))};
}

}  // namespace muster::control
