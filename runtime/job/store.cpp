// SPDX-License-Identifier: Apache-2.0
#include "muster/store.hpp"

#include <fmt/format.h>

#include <utility>

#include "control_plane/control_plane.hpp"
#include "control_plane/kv_store.hpp"

namespace muster {

using protocol::Blob;
using protocol::StoreAction;

namespace {

// The program's keys cannot be those of the runtime.
constexpr std::string_view prefix = "user/";
static_assert(prefix.size() + Store::max_key_bytes <= control::max_key_bytes);
static_assert(Store::max_value_bytes == control::max_value_bytes);

std::string name_of(const char* call, const std::string& key) {
  if (key.size() <= Store::max_key_bytes) return std::string(prefix) + key;
  throw Error(ErrorCode::usage, fmt::format("store: {}: the key '{}…' has {} bytes, and the limit is {}",
                                            call, key.substr(0, 40), key.size(), Store::max_key_bytes));
}

Blob to_blob(const char* call, const std::string& key, std::string_view value) {
  if (value.size() <= Store::max_value_bytes) return Blob(value.begin(), value.end());
  throw Error(ErrorCode::usage, fmt::format("store: {}: the value of '{}' has {} bytes, and the limit is {}",
                                            call, key, value.size(), Store::max_value_bytes));
}

std::string to_string(const Blob& value) { return {value.begin(), value.end()}; }

}  // namespace

Store::Store(std::shared_ptr<control::ControlPlane> plane) : plane_(std::move(plane)) {}

void Store::put(const std::string& key, std::string_view value) {
  plane_->put(name_of("put", key), to_blob("put", key, value));
}

std::string Store::get(const std::string& key, std::chrono::milliseconds timeout) {
  if (auto const value = plane_->get(name_of("get", key), timeout)) return to_string(*value);
  throw Error(ErrorCode::deadline, fmt::format("store: get: no rank put '{}' within {}", key,
                                               format_duration(Deadline(timeout).length())));
}

std::int64_t Store::add(const std::string& key, std::int64_t amount) {
  auto const text = std::to_string(amount);
  auto const sum =
      plane_->apply({0, StoreAction::add, name_of("add", key), Blob(text.begin(), text.end()), {}});
  if (sum) return std::stoll(to_string(*sum));
  throw Error(ErrorCode::usage,
              fmt::format("store: add: the value of '{}', or its sum with {}, is not an integer of 64 bits",
                          key, amount));
}

void Store::append(const std::string& key, std::string_view value) {
  if (plane_->apply({0, StoreAction::append, name_of("append", key), to_blob("append", key, value), {}}))
    return;
  throw Error(ErrorCode::usage, fmt::format("store: append: the value of '{}' would have more than {} bytes",
                                            key, Store::max_value_bytes));
}

std::optional<std::string> Store::compare_set(const std::string& key, std::string_view expected,
                                              std::string_view desired) {
  auto const value =
      plane_->apply({0, StoreAction::compare_set, name_of("compare_set", key),
                     to_blob("compare_set", key, desired), to_blob("compare_set", key, expected)});
  if (!value) return std::nullopt;
  return to_string(*value);
}

bool Store::check(const std::string& key) {
  return plane_->apply({0, StoreAction::contains, name_of("check", key), {}, {}}).has_value();
}

bool Store::delete_key(const std::string& key) {
  return plane_->apply({0, StoreAction::erase, name_of("delete_key", key), {}, {}}).has_value();
}

std::size_t Store::num_keys() {
  return std::stoull(to_string(plane_->apply({0, StoreAction::count, std::string(prefix), {}, {}}).value()));
}

}  // namespace muster
