// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>
#include <string>
#include <string_view>

#include "c/call.hpp"

using muster::c::call;
using muster::c::require_not_null;

static_assert(MUSTER_STORE_VALUE_BYTES == muster::Store::max_value_bytes);

namespace {

// Calls what(store, key) with the arguments of `function`.
template <typename What>
int call_with_key(muster_job* job, const char* function, const char* key, const What& what) noexcept {
  return call([&] {
    auto store = require_not_null(job, function, "job").job.store();
    what(store, std::string(&require_not_null(key, function, "key")));
  });
}

std::string_view view(const char* function, const void* value, size_t bytes) {
  if (bytes == 0) return {};
  return {static_cast<const char*>(&require_not_null(static_cast<const char*>(value), function, "value")),
          bytes};
}

void write_value(const char* function, std::string_view value, void* place, size_t capacity, size_t* bytes) {
  require_not_null(bytes, function, "place for the length") = value.size();
  auto const written = std::min(capacity, value.size());
  if (written > 0)
    std::memcpy(&require_not_null(static_cast<char*>(place), function, "place for the value"), value.data(),
                written);
}

}  // namespace

int muster_store_put(muster_job* job, const char* key, const void* value, size_t bytes) {
  return call_with_key(job, "muster_store_put", key, [&](muster::Store& store, const std::string& name) {
    store.put(name, view("muster_store_put", value, bytes));
  });
}

int muster_store_get(muster_job* job, const char* key, void* value, size_t capacity, size_t* bytes,
                     int64_t timeout_ms) {
  return call_with_key(job, "muster_store_get", key, [&](muster::Store& store, const std::string& name) {
    write_value("muster_store_get", store.get(name, std::chrono::milliseconds(timeout_ms)), value, capacity,
                bytes);
  });
}

int muster_store_add(muster_job* job, const char* key, int64_t amount, int64_t* sum) {
  return call_with_key(job, "muster_store_add", key, [&](muster::Store& store, const std::string& name) {
    require_not_null(sum, "muster_store_add", "place for the sum") = store.add(name, amount);
  });
}

int muster_store_append(muster_job* job, const char* key, const void* value, size_t bytes) {
  return call_with_key(job, "muster_store_append", key, [&](muster::Store& store, const std::string& name) {
    store.append(name, view("muster_store_append", value, bytes));
  });
}

int muster_store_compare_set(muster_job* job, const char* key, const void* expected, size_t expected_bytes,
                             const void* desired, size_t desired_bytes, void* value, size_t capacity,
                             size_t* bytes, int* found) {
  auto const* const function = "muster_store_compare_set";
  return call_with_key(job, function, key, [&](muster::Store& store, const std::string& name) {
    auto& is_found = require_not_null(found, function, "place for the answer");
    auto const stored = store.compare_set(name, view(function, expected, expected_bytes),
                                          view(function, desired, desired_bytes));
    is_found = stored ? 1 : 0;
    write_value(function, stored ? *stored : "", value, capacity, bytes);
  });
}

int muster_store_check(muster_job* job, const char* key, int* found) {
  return call_with_key(job, "muster_store_check", key, [&](muster::Store& store, const std::string& name) {
    require_not_null(found, "muster_store_check", "place for the answer") = store.check(name) ? 1 : 0;
  });
}

int muster_store_delete_key(muster_job* job, const char* key, int* found) {
  return call_with_key(job, "muster_store_delete_key", key,
                       [&](muster::Store& store, const std::string& name) {
                         require_not_null(found, "muster_store_delete_key", "place for the answer") =
                             store.delete_key(name) ? 1 : 0;
                       });
}

int muster_store_num_keys(muster_job* job, size_t* count) {
  return call([&] {
    auto store = require_not_null(job, "muster_store_num_keys", "job").job.store();
    require_not_null(count, "muster_store_num_keys", "place for the number") = store.num_keys();
  });
}
