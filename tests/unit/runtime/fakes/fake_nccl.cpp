// SPDX-License-Identifier: Apache-2.0
// A fake NCCL on host memory. By default every rank keeps its own data, for worlds of one rank and for faults
// before ranks exchange data. With FAKE_NCCL_FOLDER, a folder that is empty at the job's start, ranks that
// are processes or threads exchange data (fake_nccl_exchange.hpp): in collectives, single messages, and
// groups of messages in which every rank takes part; the communicator is in progress meanwhile. Faults are
// selected by
//   FAKE_NCCL_VERSION  the result of ncclGetVersion, in the form of NCCL_VERSION_CODE: 22703 is 2.27.3
//   FAKE_NCCL          one of
//     hang_init        a communicator never becomes ready
//     fail_init        init fails
//     slow_init        ready at the 50th query
//     late_id, late_init, late_all_reduce  the named call takes 300 ms
//     shared_gpu       init finds another rank on the GPU
//     old              version 2.19
//     fail_later       an asynchronous error after init
//     fail_split       a split fails
//     slow_abort, slow_destroy  each abort or destroy lasts until all communicators are in it, 4 s at most
//     fail_send        ncclSend fails
//     lost_send        a message outside of groups never arrives
//     hang_broadcast   this rank never takes part in a broadcast
//     slow_group       the end of a group is in progress for a while
//     hang_group       the end of a group is in progress for ever
//     no_memory        ncclMemAlloc fails
//     no_registration  ncclCommRegister fails
//     no_windows       ncclCommWindowRegister makes none
//     fail_window      ncclCommWindowRegister fails
//     wrong_sums       an all-reduce exchanges nothing
//     die_in_reduction the second all-reduce kills the process
//     die_in_init      ncclCommInitRankConfig kills the process
// A split behaves like the real one: it returns success at once without a new communicator, and the parent is
// in progress for a while. The new communicator's pointer is written late; for a failed split, when the
// parent is aborted.
//
// The fake counts live communicators, so that tests see whether each was destroyed or aborted, logs the names
// of the operations, and measures how long a "hang_init" was waited for. Ids are numbered from 1. A message
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
auto& allocated = *new std::set<void*>;  // never destroyed: memory that a failed reducer leaves is no leak
std::atomic<int> registrations{0};
std::atomic<int> windows{0};

}  // namespace

namespace fake_nccl {

bool is_mode(const char* what) {
  const char* const value = std::getenv("FAKE_NCCL");
  return value != nullptr && std::strcmp(value, what) == 0;
}

void delay_if(const char* what) {
  if (is_mode(what)) std::this_thread::sleep_for(std::chrono::milliseconds{300});
}

}  // namespace fake_nccl

using fake_nccl::is_mode;

extern "C" {

int fake_nccl_allocations() {
  std::lock_guard const lock(memory_mutex);
  return static_cast<int>(allocated.size());
}
int fake_nccl_registrations() { return registrations; }
int fake_nccl_windows() { return windows; }

ncclResult_t ncclMemAlloc(void** memory, size_t bytes) {
  if (is_mode("no_memory")) return ncclUnhandledCudaError;
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
  if (is_mode("no_registration")) return ncclInvalidUsage;
  *handle = memory;
  ++registrations;
  return ncclSuccess;
}

ncclResult_t ncclCommDeregister(const ncclComm_t comm, void* handle) {
  if (comm == nullptr || handle == nullptr) return ncclInvalidArgument;
  --registrations;
  return ncclSuccess;
}

#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 27, 0)
// Collective: all ranks must register as many bytes. The window is written late.
ncclResult_t ncclCommWindowRegister(ncclComm_t comm, void* memory, size_t bytes, ncclWindow_t* window,
                                    int flags) {
  {
    std::lock_guard const lock(memory_mutex);
    if (comm == nullptr || !allocated.contains(memory) || flags != NCCL_WIN_COLL_SYMMETRIC)
      return ncclInvalidArgument;
  }
  fake_nccl::log_operation("window_register", comm);
  if (is_mode("fail_window")) return ncclInvalidUsage;
  auto const finish = [=] {
    if (is_mode("no_windows")) return ncclSuccess;
    *window = reinterpret_cast<ncclWindow_t>(memory);
    ++windows;
    return ncclSuccess;
  };
  if (!comm->exchange) return finish();
  return fake_nccl::run_async(comm, [=] {
    std::uint64_t const range[] = {bytes, ~std::uint64_t{bytes}};
    std::uint64_t least[2] = {};
    ncclResult_t const result = comm->exchange->all_reduce(range, least, 2, ncclUint64, ncclMin);
    if (result != ncclSuccess) return result;
    return least[0] == bytes && ~least[1] == bytes ? finish() : ncclInvalidArgument;
  });
}

ncclResult_t ncclCommWindowDeregister(ncclComm_t comm, ncclWindow_t window) {
  if (comm == nullptr || window == nullptr) return ncclInvalidArgument;
  --windows;
  return ncclSuccess;
}
#endif

ncclResult_t ncclGetVersion(int* version) {
  const char* const version_text = std::getenv("FAKE_NCCL_VERSION");
  *version = is_mode("old") ? 21903 : version_text != nullptr ? std::atoi(version_text) : NCCL_VERSION_CODE;
  return ncclSuccess;
}

const char* ncclGetErrorString(ncclResult_t result) {
  return result == ncclSystemError ? "unhandled system error" : "internal error";
}

const char* ncclGetLastError(ncclComm_t) { return "socketStartConnect: no route to host\n"; }

}  // extern "C"
