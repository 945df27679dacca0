// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <pmix.h>

#include <cstring>
#include <future>
#include <memory>

#include "deadline.hpp"
#include "doctor/checks.hpp"

namespace muster::cli::doctor {
namespace {

using Promise = std::promise<int>;

void on_fence_end(pmix_status_t status, void* promise) {
  std::unique_ptr<std::shared_ptr<Promise>> const held(static_cast<std::shared_ptr<Promise>*>(promise));
  (*held)->set_value(status);
}

int put_fresh_key(const pmix_proc_t& self) {
  static int count = 0;
  auto const key = fmt::format("muster.doctor.{}.{}", self.rank, ++count);
  pmix_value_t value;
  std::memset(&value, 0, sizeof value);
  value.type = PMIX_UINT32;
  value.data.uint32 = self.rank;
  int const status = PMIx_Put(PMIX_GLOBAL, key.c_str(), &value);
  return status == PMIX_SUCCESS ? PMIx_Commit() : status;
}

// PMIX_TIMEOUT limits only local waits, so this function has its own clock.
int fence(bool collecting, int seconds) {
  pmix_info_t info;
  std::memset(&info, 0, sizeof info);
  std::strncpy(info.key, PMIX_COLLECT_DATA, sizeof info.key - 1);
  info.value.type = PMIX_BOOL;
  info.value.data.flag = true;
  auto const promise = std::make_shared<Promise>();
  auto future = promise->get_future();
  auto* const held = new std::shared_ptr<Promise>(promise);
  int const started =
      PMIx_Fence_nb(nullptr, 0, collecting ? &info : nullptr, collecting ? 1 : 0, on_fence_end, held);
  if (started != PMIX_SUCCESS) {
    delete held;
    return started == PMIX_OPERATION_SUCCEEDED ? PMIX_SUCCESS : started;
  }
  if (future.wait_for(std::chrono::seconds(seconds)) != std::future_status::ready) return PMIX_ERR_TIMEOUT;
  return future.get();
}

}  // namespace

std::string pmix_fence(bool collecting, int seconds) {
  auto const status = run_bounded(
      [collecting, seconds] {
        pmix_proc_t self;
        // This uses the job's own connection: PMIx counts the calls of PMIx_Init.
        int result = PMIx_Init(&self, nullptr, 0);
        if (result != PMIX_SUCCESS) return result;
        if (collecting) result = put_fresh_key(self);
        if (result == PMIX_SUCCESS) result = fence(collecting, seconds);
        PMIx_Finalize(nullptr, 0);
        return result;
      },
      Deadline(std::chrono::seconds(seconds + 5)));
  if (!status) return "PMIx does not answer";
  return *status == PMIX_SUCCESS ? "" : PMIx_Error_string(*status);
}

}  // namespace muster::cli::doctor
