// SPDX-License-Identifier: Apache-2.0
// Interposes PMIx's functions. If FAILING_IN is "answers", other ranks' records arrive after the report of
// missing ranks has begun, and host names after those records.
#include <dlfcn.h>
#include <pmix.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <string_view>
#include <thread>

namespace {

using namespace std::chrono_literals;

std::atomic<bool> remote_requested = false;

bool is_delayed() {
  const char* const where = std::getenv("FAILING_IN");
  return where != nullptr && std::string_view(where) == "answers";
}

template <typename Function>
Function* next(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

}  // namespace

extern "C" {

pmix_status_t PMIx_Get_nb(const pmix_proc_t* proc, const char* key, const pmix_info_t* info, size_t infos,
                          pmix_value_cbfunc_t done, void* data) {
  auto* const get = next<decltype(PMIx_Get_nb)>("PMIx_Get_nb");
  // PMIx's own keys have this prefix; PMIx also requests them itself.
  if (!is_delayed() || key == nullptr || std::string_view(key).starts_with("pmix."))
    return get(proc, key, info, infos, done, data);
  remote_requested = true;
  std::thread([=, process = *proc] {
    std::this_thread::sleep_for(500ms);
    get(&process, key, info, infos, done, data);
  }).detach();
  return PMIX_SUCCESS;
}

pmix_status_t PMIx_Get(const pmix_proc_t* proc, const char* key, const pmix_info_t* info, size_t infos,
                       pmix_value_t** value) {
  if (is_delayed() && remote_requested && key != nullptr && std::string_view(key) == PMIX_HOSTNAME)
    std::this_thread::sleep_for(1500ms);
  return next<decltype(PMIx_Get)>("PMIx_Get")(proc, key, info, infos, value);
}

}  // extern "C"
