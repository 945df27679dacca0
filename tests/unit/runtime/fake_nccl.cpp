// SPDX-License-Identifier: Apache-2.0
// A test double of NCCL on host memory. By itself every rank keeps its own data, for worlds of one and for
// what goes wrong before ranks exchange anything. With FAKE_NCCL_FOLDER, a folder that is empty at the job's
// start, ranks that are processes or threads do exchange it (fake_nccl_exchange.hpp), messages in groups in
// which every rank has some, and the communicator is in progress meanwhile. What goes wrong is chosen with
//   FAKE_NCCL   "hang_init" (never ready), "fail_init", "slow_init" (ready at the 50th question),
//               "fail_later" (an asynchronous error after init), "old" (version 2.19), "fail_split",
//               "slow_abort", "slow_destroy" (each takes 300 ms), "shared_gpu" (init finds another rank on
//               the GPU), "fail_send", "slow_group" (the end of a group is in progress for a while),
//               "hang_group" (for ever), "late_id", "late_init", "late_all_reduce" (the call that this names
//               takes 300 ms), "no_memory" (ncclMemAlloc fails), "no_registration" (ncclCommRegister fails),
//               "wrong_sums" (an all-reduce exchanges nothing), "die_in_reduction" (the second all-reduce
//               kills)
// A split shows as the real one's: success at once with no new communicator, the parent in progress for a
// while; where the new one goes to is written late, for a failed split when the parent is aborted.
// Counts live communicators, so that tests see whether each was destroyed or aborted, and writes down the
// names of the operations, and for how long a "hang_init" was waited for. Ids are numbered from 1. A message
// to oneself arrives at the end of its group.
#include <nccl.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <future>
#include <limits>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "fake_nccl_exchange.hpp"

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
  std::unique_ptr<FakeExchange> exchange = nullptr;
  std::unique_ptr<FakeExchange> part = nullptr;  // of the split
  std::future<ncclResult_t> work = {};           // what the ranks exchange now
};

namespace {

std::atomic<int> live{0};
std::atomic<int> aborted{0};
std::atomic<int> aborting{0};
std::atomic<int> most_aborting{0};
std::mutex memory_mutex;
auto& allocated = *new std::set<void*>;  // what a reducer in trouble leaves is no leak at the end
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

std::unique_ptr<FakeExchange> exchange_for(const ncclUniqueId& id, int rank, int ranks) {
  const char* const folder = std::getenv("FAKE_NCCL_FOLDER");
  if (folder == nullptr) return nullptr;
  return std::make_unique<FakeExchange>(
      folder + std::string("/communicator.") + std::to_string(id.internal[0]), rank, ranks);
}

std::string journal;
std::mutex journal_mutex;  // ranks may be threads
std::atomic<int> ids_made{0};
// A group is one thread's.
thread_local int depth = 0;
thread_local ncclComm_t in_group = nullptr;  // the last communicator that was used in the group
thread_local std::vector<FakeMessage> sends;
thread_local std::vector<FakeMessage> recvs;

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

// Does `work` on a thread of its own, after what the group began before.
template <typename Work>
ncclResult_t begin(ncclComm_t comm, Work work) {
  if (comm->work.valid()) comm->work.wait();
  comm->work = std::async(std::launch::async, std::move(work));
  return ncclInProgress;
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
int fake_nccl_allocations() {
  std::lock_guard const lock(memory_mutex);
  return static_cast<int>(allocated.size());
}
int fake_nccl_registrations() { return registrations; }
int fake_nccl_all_reduces() { return all_reduces; }
void* fake_nccl_last_stream() { return last_stream; }

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
ncclResult_t ncclCommInitRankScalable(ncclComm_t* comm, int ranks, int rank, int count, ncclUniqueId* ids,
                                      ncclConfig_t* config) {
  std::string text = "init_" + std::to_string(count) + "_ids";
  for (int i = 0; i < count; ++i) {
    char const number = ids[i].internal[0];
    for (char const byte : ids[i].internal)
      if (byte != number) return ncclInvalidArgument;
    text += "_" + std::to_string(number);
  }
  note(text.c_str(), nullptr);
  return ncclCommInitRankConfig(comm, ranks, ids[0], rank, config);
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int ranks, ncclUniqueId id, int rank,
                                    ncclConfig_t* config) {
  if (config->blocking != 0) return ncclInvalidArgument;
  ++live;
  *comm = new ncclComm{.ranks = ranks, .exchange = exchange_for(id, rank, ranks)};
  be_late("late_init");
  if (chosen("shared_gpu")) return ncclInvalidUsage;
  return chosen("fail_init") ? ncclSystemError : ncclInProgress;
}

ncclResult_t ncclCommSplit(ncclComm_t parent, int color, int key, ncclComm_t* out, ncclConfig_t* config) {
  if (config->blocking != 0 || parent->split_slot != nullptr) return ncclInvalidArgument;
  *out = nullptr;
  if (parent->exchange) begin(parent, [=] { return parent->exchange->split(color, key, parent->part); });
  parent->split_slot = out;
  parent->split_questions = 5;
  return ncclSuccess;
}

ncclResult_t ncclCommShrink(ncclComm_t parent, int* excluded, int count, ncclComm_t* out,
                            ncclConfig_t* config, int flags) {
  if (flags != 1 || count < 1 || excluded == nullptr) return ncclInvalidArgument;
  if (parent->exchange) return ncclInvalidUsage;  // with those that are left only: not needed so far
  return ncclCommSplit(parent, 0, 0, out, config);
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* result) {
  *result = ncclSuccess;
  comm->asked = Clock::now();
  if (comm->work.valid()) {
    bool const done = comm->work.wait_for(std::chrono::seconds{0}) == std::future_status::ready;
    *result = done ? comm->work.get() : ncclInProgress;
    if (*result != ncclSuccess) return ncclSuccess;
  }
  if (comm->ready && chosen("fail_later")) *result = ncclSystemError;
  if (comm->split_slot != nullptr) {
    *result = ncclInProgress;
    if (--comm->split_questions > 0) return ncclSuccess;
    *result = chosen("fail_split") ? ncclSystemError : ncclSuccess;
    if (*result != ncclSuccess) return ncclSuccess;
    ++live;
    *std::exchange(comm->split_slot, nullptr) = new ncclComm{.exchange = std::move(comm->part)};
    return ncclSuccess;
  }
  if (comm->group_questions > 0) {
    if (!chosen("hang_group")) --comm->group_questions;
    *result = ncclInProgress;
  }
  if (comm->ready) return ncclSuccess;
  ++comm->questions;
  comm->ready = !chosen("hang_init") && (!chosen("slow_init") || comm->questions > 50) &&
                (!comm->exchange || comm->exchange->complete());
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
  auto const hung =
      static_cast<int>(std::chrono::floor<std::chrono::milliseconds>(comm->asked - comm->made).count());
  for (int least = shortest_hang; hung < least && !shortest_hang.compare_exchange_weak(least, hung);) {
  }
  int const now = ++aborting;
  for (int most = most_aborting; most < now && !most_aborting.compare_exchange_weak(most, now);) {
  }
  if (comm->exchange) comm->exchange->abandon();
  if (chosen("slow_abort")) std::this_thread::sleep_for(std::chrono::milliseconds{300});
  --aborting;
  if (comm->split_slot != nullptr) *comm->split_slot = nullptr;
  ++aborted;
  return ncclCommDestroy(comm);
}

ncclResult_t ncclAllReduce(const void* in, void* out, size_t count, ncclDataType_t type, ncclRedOp_t op,
                           ncclComm_t comm, cudaStream_t stream) {
  note("all_reduce", comm);
  be_late("late_all_reduce");
  if (++all_reduces == 2 && chosen("die_in_reduction")) std::raise(SIGKILL);
  last_stream = stream;
  if (!comm->exchange || chosen("wrong_sums")) return copy(in, out, count, type);
  return begin(comm, [=] { return comm->exchange->all_reduce(in, out, count, type, op); });
}
ncclResult_t ncclReduce(const void* in, void* out, size_t count, ncclDataType_t type, ncclRedOp_t op,
                        int root, ncclComm_t comm, cudaStream_t) {
  note("reduce", comm);
  if (!comm->exchange) return copy(in, out, count, type);
  return begin(comm, [=] { return comm->exchange->reduce(in, out, count, type, op, root); });
}
ncclResult_t ncclBroadcast(const void* in, void* out, size_t count, ncclDataType_t type, int root,
                           ncclComm_t comm, cudaStream_t) {
  note("broadcast", comm);
  if (!comm->exchange) return copy(in, out, count, type);
  return begin(comm, [=] { return comm->exchange->broadcast(in, out, count * bytes_of(type), root); });
}
ncclResult_t ncclAllGather(const void* in, void* out, size_t count, ncclDataType_t type, ncclComm_t comm,
                           cudaStream_t) {
  note("all_gather", comm);
  if (!comm->exchange) return copy(in, out, count, type);
  return begin(comm, [=] { return comm->exchange->all_gather(in, out, count * bytes_of(type)); });
}
ncclResult_t ncclReduceScatter(const void* in, void* out, size_t count, ncclDataType_t type, ncclRedOp_t op,
                               ncclComm_t comm, cudaStream_t) {
  note("reduce_scatter", comm);
  if (!comm->exchange) return copy(in, out, count, type);
  return begin(comm, [=] { return comm->exchange->reduce_scatter(in, out, count, type, op); });
}
ncclResult_t ncclSend(const void* from, size_t count, ncclDataType_t type, int to, ncclComm_t comm,
                      cudaStream_t) {
  note("send", comm);
  if (chosen("fail_send")) return ncclInvalidArgument;
  if (comm->exchange && depth == 0) return ncclInvalidUsage;
  if (comm->exchange || to == 0) sends.push_back({to, from, nullptr, count * bytes_of(type)});
  return ncclSuccess;
}
ncclResult_t ncclRecv(void* to, size_t count, ncclDataType_t type, int from, ncclComm_t comm, cudaStream_t) {
  note("recv", comm);
  if (comm->exchange && depth == 0) return ncclInvalidUsage;
  if (comm->exchange || from == 0) recvs.push_back({from, nullptr, to, count * bytes_of(type)});
  return ncclSuccess;
}

ncclResult_t ncclGroupStart() {
  ++depth;
  return note("(", nullptr);
}
ncclResult_t ncclGroupEnd() {
  note(")", in_group);
  if (--depth > 0) return ncclSuccess;
  auto* const comm = std::exchange(in_group, nullptr);
  auto const sent = std::exchange(sends, {});
  auto const received = std::exchange(recvs, {});
  if (comm != nullptr && comm->exchange && !(sent.empty() && received.empty()))
    return begin(comm, [=] { return comm->exchange->messages(sent, received); });
  for (std::size_t i = 0; i < sent.size() && i < received.size(); ++i)
    std::memcpy(received[i].to, sent[i].from, sent[i].bytes);
  if (comm != nullptr && comm->work.valid()) return ncclInProgress;
  if (comm == nullptr || !(chosen("slow_group") || chosen("hang_group"))) return ncclSuccess;
  comm->group_questions = 5;
  return ncclInProgress;
}

}  // extern "C"
