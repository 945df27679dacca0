// SPDX-License-Identifier: Apache-2.0
// A test double of NCCL on host memory, for worlds of one and for what goes wrong before ranks exchange
// anything. Chosen with
//   FAKE_NCCL   "hang_init" (never ready), "fail_init", "slow_init" (ready at the 50th question),
//               "fail_later" (an asynchronous error after init), "old" (version 2.19), "fail_split",
//               "slow_abort", "slow_destroy" (each takes 300 ms), "shared_gpu" (init finds another rank on the GPU),
//               "fail_send", "slow_group" (the end of a group is in progress for a while), "hang_group" (for
//               ever),
//               "late_id", "late_init", "late_all_reduce" (the call that this names takes 300 ms),
//               "no_memory" (ncclMemAlloc fails), "no_registration" (ncclCommRegister fails)
// A split shows as the real one's: success at once with no new communicator, the parent in progress for a
// while; where the new one goes to is written late, for a failed split when the parent is aborted.
// Counts live communicators, so that tests see whether each was destroyed or aborted, and writes down the
// names of the operations, and for how long a "hang_init" was waited for. Ids are numbered from 1. A message to oneself arrives at the end of its group.
#include <nccl.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

using Clock = std::chrono::steady_clock;

struct ncclComm {
  int ranks = 1;
  Clock::time_point made = Clock::now();
  Clock::time_point asked = made;  // the last time
  int questions = 0;
  bool ready = false;
  ncclComm_t* split_slot = nullptr;  // of a split that is under way or failed
  int split_questions = 0;
  int group_questions = 0;
};

namespace {

std::atomic<int> live{0};
std::atomic<int> aborted{0};
std::atomic<int> aborting{0};
std::atomic<int> most_aborting{0};
std::atomic<int> allocations{0};
std::atomic<int> registrations{0};
std::atomic<int> all_reduces{0};
std::atomic<void*> last_stream{nullptr};
std::atomic<int> destroying{0};
std::atomic<int> most_destroying{0};
std::atomic<int> shortest_hang{std::numeric_limits<int>::max()};  // in ms

bool chosen(const char* what) {
  const char* const value = std::getenv("FAKE_NCCL");
  return value != nullptr && std::strcmp(value, what) == 0;
}

void be_late(const char* what) {
  if (chosen(what)) std::this_thread::sleep_for(std::chrono::milliseconds{300});
}

std::size_t bytes_of(ncclDataType_t type) {
  switch (type) {
    case ncclInt8:
    case ncclUint8:
      return 1;
    case ncclFloat16:
    case ncclBfloat16:
      return 2;
    case ncclInt32:
    case ncclUint32:
    case ncclFloat32:
      return 4;
    default:
      return 8;
  }
}

std::string journal;
std::mutex journal_mutex;  // ranks may be threads
std::atomic<int> ids_made{0};
int depth = 0;
ncclComm_t in_group = nullptr;  // the last communicator that was used in the group
struct Message {
  const void* from;
  void* to;
  std::size_t bytes;
};
std::vector<Message> sends;
std::vector<Message> recvs;

ncclResult_t note(const char* operation, ncclComm_t comm) {
  std::lock_guard const lock(journal_mutex);
  journal += (journal.empty() ? "" : " ") + std::string(operation);
  if (depth > 0) in_group = comm;
  return ncclSuccess;
}

ncclResult_t copy(const void* in, void* out, std::size_t count, ncclDataType_t type) {
  if (in != out) std::memcpy(out, in, count * bytes_of(type));
  return ncclSuccess;
}

}  // namespace

extern "C" {

int fake_nccl_live() { return live; }
int fake_nccl_aborted() { return aborted; }
int fake_nccl_most_destroying() { return most_destroying; }
int fake_nccl_most_aborting() { return most_aborting; }
/// Of those since the last call, in ms: between NCCL's first call and the last question.
int fake_nccl_shortest_hang() { return shortest_hang.exchange(std::numeric_limits<int>::max()); }
int fake_nccl_depth() { return depth; }
/// The operations since the last call.
const char* fake_nccl_journal() {
  static std::string told;
  std::lock_guard const lock(journal_mutex);
  told = std::exchange(journal, "");
  return told.c_str();
}
int fake_nccl_allocations() { return allocations; }
int fake_nccl_registrations() { return registrations; }
int fake_nccl_all_reduces() { return all_reduces; }
void* fake_nccl_last_stream() { return last_stream; }

ncclResult_t ncclMemAlloc(void** memory, size_t bytes) {
  if (chosen("no_memory")) return ncclUnhandledCudaError;
  *memory = std::malloc(bytes);
  ++allocations;
  return ncclSuccess;
}

ncclResult_t ncclMemFree(void* memory) {
  std::free(memory);
  --allocations;
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
  *version = chosen("old") ? 21903 : NCCL_VERSION_CODE;
  return ncclSuccess;
}

const char* ncclGetErrorString(ncclResult_t result) {
  return result == ncclSystemError ? "unhandled system error" : "internal error";
}

const char* ncclGetLastError(ncclComm_t) { return "socketStartConnect: no route to host\n"; }

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  be_late("late_id");
  std::memset(id, ++ids_made, sizeof *id);
  return ncclSuccess;
}

/// Notes how many ids came and their numbers: "init_2_ids_1_2".
ncclResult_t ncclCommInitRankScalable(ncclComm_t* comm, int ranks, int, int count, ncclUniqueId* ids,
                                      ncclConfig_t* config) {
  std::string text = "init_" + std::to_string(count) + "_ids";
  for (int i = 0; i < count; ++i) {
    char const number = ids[i].internal[0];
    for (char const byte : ids[i].internal)
      if (byte != number) return ncclInvalidArgument;
    text += "_" + std::to_string(number);
  }
  note(text.c_str(), nullptr);
  return ncclCommInitRankConfig(comm, ranks, ids[0], 0, config);
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int ranks, ncclUniqueId, int, ncclConfig_t* config) {
  if (config->blocking != 0) return ncclInvalidArgument;
  ++live;
  *comm = new ncclComm{ranks};
  be_late("late_init");
  if (chosen("shared_gpu")) return ncclInvalidUsage;
  return chosen("fail_init") ? ncclSystemError : ncclInProgress;
}

ncclResult_t ncclCommSplit(ncclComm_t parent, int, int, ncclComm_t* out, ncclConfig_t* config) {
  if (config->blocking != 0 || parent->split_slot != nullptr) return ncclInvalidArgument;
  *out = nullptr;
  parent->split_slot = out;
  parent->split_questions = 5;
  return ncclSuccess;
}

ncclResult_t ncclCommShrink(ncclComm_t parent, int* excluded, int count, ncclComm_t* out, ncclConfig_t* config,
                            int flags) {
  if (flags != 1 || count < 1 || excluded == nullptr) return ncclInvalidArgument;
  return ncclCommSplit(parent, 0, 0, out, config);
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* result) {
  *result = ncclSuccess;
  comm->asked = Clock::now();
  if (comm->ready && chosen("fail_later")) *result = ncclSystemError;
  if (comm->split_slot != nullptr) {
    *result = ncclInProgress;
    if (--comm->split_questions > 0) return ncclSuccess;
    *result = chosen("fail_split") ? ncclSystemError : ncclSuccess;
    if (*result != ncclSuccess) return ncclSuccess;
    ++live;
    *std::exchange(comm->split_slot, nullptr) = new ncclComm;
    return ncclSuccess;
  }
  if (comm->group_questions > 0) {
    if (!chosen("hang_group")) --comm->group_questions;
    *result = ncclInProgress;
  }
  if (comm->ready) return ncclSuccess;
  ++comm->questions;
  comm->ready = !chosen("hang_init") && (!chosen("slow_init") || comm->questions > 50);
  if (!comm->ready) *result = ncclInProgress;
  return ncclSuccess;
}

ncclResult_t ncclCommFinalize(ncclComm_t) { return ncclSuccess; }

ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  int const now = ++destroying;
  for (int most = most_destroying; most < now && !most_destroying.compare_exchange_weak(most, now);) {
  }
  if (chosen("slow_destroy")) std::this_thread::sleep_for(std::chrono::milliseconds{300});
  --destroying;
  --live;
  delete comm;
  return ncclSuccess;
}

ncclResult_t ncclCommAbort(ncclComm_t comm) {
  auto const hung = static_cast<int>(std::chrono::floor<std::chrono::milliseconds>(comm->asked - comm->made).count());
  for (int least = shortest_hang; hung < least && !shortest_hang.compare_exchange_weak(least, hung);) {
  }
  int const now = ++aborting;
  for (int most = most_aborting; most < now && !most_aborting.compare_exchange_weak(most, now);) {
  }
  if (chosen("slow_abort")) std::this_thread::sleep_for(std::chrono::milliseconds{300});
  --aborting;
  if (comm->split_slot != nullptr) *comm->split_slot = nullptr;
  ++aborted;
  return ncclCommDestroy(comm);
}

ncclResult_t ncclAllReduce(const void* in, void* out, size_t count, ncclDataType_t type, ncclRedOp_t,
                           ncclComm_t comm, cudaStream_t stream) {
  note("all_reduce", comm);
  be_late("late_all_reduce");
  ++all_reduces;
  last_stream = stream;
  return copy(in, out, count, type);
}
ncclResult_t ncclReduce(const void* in, void* out, size_t count, ncclDataType_t type, ncclRedOp_t, int,
                        ncclComm_t comm, cudaStream_t) {
  note("reduce", comm);
  return copy(in, out, count, type);
}
ncclResult_t ncclBroadcast(const void* in, void* out, size_t count, ncclDataType_t type, int, ncclComm_t comm,
                           cudaStream_t) {
  note("broadcast", comm);
  return copy(in, out, count, type);
}
ncclResult_t ncclAllGather(const void* in, void* out, size_t count, ncclDataType_t type, ncclComm_t comm,
                           cudaStream_t) {
  note("all_gather", comm);
  return copy(in, out, count, type);
}
ncclResult_t ncclReduceScatter(const void* in, void* out, size_t count, ncclDataType_t type, ncclRedOp_t,
                               ncclComm_t comm, cudaStream_t) {
  note("reduce_scatter", comm);
  return copy(in, out, count, type);
}
ncclResult_t ncclSend(const void* from, size_t count, ncclDataType_t type, int to, ncclComm_t comm,
                      cudaStream_t) {
  note("send", comm);
  if (chosen("fail_send")) return ncclInvalidArgument;
  if (to == 0) sends.push_back({from, nullptr, count * bytes_of(type)});
  return ncclSuccess;
}
ncclResult_t ncclRecv(void* to, size_t count, ncclDataType_t type, int from, ncclComm_t comm, cudaStream_t) {
  note("recv", comm);
  if (from == 0) recvs.push_back({nullptr, to, count * bytes_of(type)});
  return ncclSuccess;
}

ncclResult_t ncclGroupStart() {
  ++depth;
  return note("(", nullptr);
}
ncclResult_t ncclGroupEnd() {
  note(")", in_group);
  if (--depth > 0) return ncclSuccess;
  for (std::size_t i = 0; i < sends.size() && i < recvs.size(); ++i)
    std::memcpy(recvs[i].to, sends[i].from, sends[i].bytes);
  sends.clear();
  recvs.clear();
  auto* const comm = std::exchange(in_group, nullptr);
  if (comm == nullptr || !(chosen("slow_group") || chosen("hang_group"))) return ncclSuccess;
  comm->group_questions = 5;
  return ncclInProgress;
}

}  // extern "C"
