// SPDX-License-Identifier: Apache-2.0
// A test double of NCCL on host memory. By itself every rank keeps its own data, for worlds of one and for
// what goes wrong before ranks exchange anything. With FAKE_NCCL_FOLDER, a folder that is empty at the job's
// start, ranks that are processes or threads do exchange it (fake_nccl_exchange.hpp), messages by
// themselves or in groups in which every rank has some, and the communicator is in progress meanwhile. What
// goes wrong is chosen with
//   FAKE_NCCL   "hang_init" (never ready), "fail_init", "slow_init" (ready at the 50th question),
//               "fail_later" (an asynchronous error after init), "old" (version 2.19), "fail_split",
//               "slow_abort", "slow_destroy" (each takes 300 ms), "shared_gpu" (init finds another rank on
//               the GPU), "fail_send", "slow_group" (the end of a group is in progress for a while),
//               "hang_group" (for ever), "late_id", "late_init", "late_all_reduce" (the call that this names
//               takes 300 ms), "no_memory" (ncclMemAlloc fails), "no_registration" (ncclCommRegister fails),
//               "wrong_sums" (an all-reduce exchanges nothing), "die_in_reduction" (the second all-reduce
//               kills), "die_in_shrink" (the call of it kills)
//   FAKE_NCCL_VERSION   what ncclGetVersion says, as NCCL_VERSION_CODE is: 22703 is 2.27.3
// A split shows as the real one's: success at once with no new communicator, the parent in progress for a
// while; where the new one goes to is written late, for a failed split when the parent is aborted. A shrink
// is a split of those that are left, which must leave out the same ranks (fake_nccl_exchange.hpp).
//
// Counts live communicators, so that tests see whether each was destroyed or aborted, and writes down the
// names of the operations, and for how long a "hang_init" was waited for. Ids are numbered from 1. A message
// to oneself arrives at the end of its group.
#include "fake_nccl.hpp"

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <set>
#include <thread>

namespace {

std::mutex memory_mutex;
auto& allocated = *new std::set<void*>;  // what a reducer in trouble leaves is no leak at the end
std::atomic<int> registrations{0};

}  // namespace

namespace fake_nccl {

bool chosen(const char* what) {
  const char* const value = std::getenv("FAKE_NCCL");
  return value != nullptr && std::strcmp(value, what) == 0;
}

void be_late(const char* what) {
  if (chosen(what)) std::this_thread::sleep_for(std::chrono::milliseconds{300});
}

}  // namespace fake_nccl

using fake_nccl::chosen;

extern "C" {

int fake_nccl_allocations() {
  std::lock_guard const lock(memory_mutex);
  return static_cast<int>(allocated.size());
}
int fake_nccl_registrations() { return registrations; }

ncclResult_t ncclMemAlloc(void** memory, size_t bytes) {
  if (chosen("no_memory")) return ncclUnhandledCudaError;
  *memory = std::malloc(bytes);
  std::lock_guard const lock(memory_mutex);
  allocated.insert(*memory);
  return ncclSuccess;
}

ncclResult_t ncclMemFree(void* memory) {
  std::lock_guard const lock(memory_mutex);
  allocated.erase(memory);
  std::free(memory);
  return ncclSuccess;
}

ncclResult_t ncclCommRegister(const ncclComm_t comm, void* memory, size_t bytes, void** handle) {
  if (comm == nullptr || memory == nullptr || bytes == 0) return ncclInvalidArgument;
  if (chosen("no_registration")) return ncclInvalidUsage;
  *handle = memory;
  ++registrations;
  return ncclSuccess;
}

ncclResult_t ncclCommDeregister(const ncclComm_t comm, void* handle) {
  if (comm == nullptr || handle == nullptr) return ncclInvalidArgument;
  --registrations;
  return ncclSuccess;
}

ncclResult_t ncclGetVersion(int* version) {
  const char* const told = std::getenv("FAKE_NCCL_VERSION");
  *version = chosen("old") ? 21903 : told != nullptr ? std::atoi(told) : NCCL_VERSION_CODE;
  return ncclSuccess;
}

const char* ncclGetErrorString(ncclResult_t result) {
  return result == ncclSystemError ? "unhandled system error" : "internal error";
}

const char* ncclGetLastError(ncclComm_t) { return "socketStartConnect: no route to host\n"; }

}  // extern "C"
