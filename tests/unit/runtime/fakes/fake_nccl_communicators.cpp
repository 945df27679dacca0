// SPDX-License-Identifier: Apache-2.0
// How the fake NCCL's communicators begin, change and end (fake_nccl.cpp).
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "fake_nccl.hpp"

using namespace fake_nccl;
using Clock = ncclComm::Clock;

namespace {

std::atomic<int> live{0};
std::atomic<int> aborted{0};
std::atomic<int> aborting{0};
std::atomic<int> max_aborting{0};
std::atomic<int> destroying{0};
std::atomic<int> max_destroying{0};
std::atomic<int> shortest_hang{std::numeric_limits<int>::max()};  // in ms
std::atomic<int> ids_made{0};

// An id is one number in all bytes but the last ones, which are the process that made it: after a loss,
// another process makes the ids.
constexpr std::size_t number_bytes = sizeof ncclUniqueId::internal - sizeof(pid_t);
pid_t maker_of(const ncclUniqueId& id) {
  pid_t pid = 0;
  std::memcpy(&pid, id.internal + number_bytes, sizeof pid);
  return pid;
}

std::unique_ptr<FakeExchange> exchange_for(const ncclUniqueId& id, int rank, int ranks) {
  const char* const folder = std::getenv("FAKE_NCCL_FOLDER");
  if (folder == nullptr) return nullptr;
  return std::make_unique<FakeExchange>(folder + std::string("/communicator.") +
                                            std::to_string(id.internal[0]) + "." +
                                            std::to_string(maker_of(id)),
                                        rank, ranks);
}

// Waits until all communicators of this process are in the call, which counts them in `inside`. Less long
// than Muster waits for a call (5 s): those that it closes one after another never meet here.
void wait_for_all(const std::atomic<int>& inside) {
  auto const end = Clock::now() + std::chrono::seconds{4};
  while (inside < live && Clock::now() < end) std::this_thread::sleep_for(std::chrono::milliseconds{1});
}

}  // namespace

extern "C" {

int fake_nccl_live() { return live; }
int fake_nccl_aborted() { return aborted; }
int fake_nccl_most_destroying() { return max_destroying; }
int fake_nccl_most_aborting() { return max_aborting; }
/// The shortest hang since the last call, in ms: from a communicator's creation to its last query.
int fake_nccl_shortest_hang() { return shortest_hang.exchange(std::numeric_limits<int>::max()); }

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  delay_if("late_id");
  std::memset(id->internal, ++ids_made, number_bytes);
  pid_t const maker = getpid();
  std::memcpy(id->internal + number_bytes, &maker, sizeof maker);
  return ncclSuccess;
}

/// Logs the number of ids and their numbers: "init_2_ids_1_2".
ncclResult_t ncclCommInitRankScalable(ncclComm_t* comm, int ranks, int rank, int count, ncclUniqueId* ids,
                                      ncclConfig_t* config) {
  std::string text = "init_" + std::to_string(count) + "_ids";
  for (int i = 0; i < count; ++i) {
    char const number = ids[i].internal[0];
    for (char const byte : std::span(ids[i].internal, number_bytes))
      if (byte != number) return ncclInvalidArgument;
    text += "_" + std::to_string(number);
  }
  log_operation(text.c_str(), nullptr);
  return ncclCommInitRankConfig(comm, ranks, ids[0], rank, config);
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int ranks, ncclUniqueId id, int rank,
                                    ncclConfig_t* config) {
  if (config->blocking != 0) return ncclInvalidArgument;
  if (is_mode("die_in_init")) std::raise(SIGKILL);
  ++live;
  *comm = new ncclComm{.ranks = ranks, .exchange = exchange_for(id, rank, ranks)};
  delay_if("late_init");
  if (is_mode("shared_gpu")) return ncclInvalidUsage;
  return is_mode("fail_init") ? ncclSystemError : ncclInProgress;
}

ncclResult_t ncclCommSplit(ncclComm_t parent, int color, int key, ncclComm_t* out, ncclConfig_t* config) {
  if (config->blocking != 0 || parent->split_result != nullptr) return ncclInvalidArgument;
  *out = nullptr;
  if (parent->exchange) finish_streams();
  if (parent->exchange) run_async(parent, [=] { return parent->exchange->split(color, key, parent->part); });
  parent->split_result = out;
  parent->split_queries = 5;
  return ncclSuccess;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* result) {
  *result = ncclSuccess;
  comm->last_query = Clock::now();
  if (comm->work.valid()) {
    bool const done = comm->work.wait_for(std::chrono::seconds{0}) == std::future_status::ready;
    *result = done ? comm->work.get() : ncclInProgress;
    if (*result != ncclSuccess) return ncclSuccess;
  }
  *result = comm->on_streams->error;
  if (*result != ncclSuccess) return ncclSuccess;
  if (comm->ready && is_mode("fail_later")) *result = ncclSystemError;
  if (comm->split_result != nullptr) {
    *result = ncclInProgress;
    if (--comm->split_queries > 0) return ncclSuccess;
    *result = is_mode("fail_split") ? ncclSystemError : ncclSuccess;
    if (*result != ncclSuccess) return ncclSuccess;
    ++live;
    *std::exchange(comm->split_result, nullptr) = new ncclComm{.exchange = std::move(comm->part)};
    return ncclSuccess;
  }
  if (comm->group_queries > 0) {
    if (!is_mode("hang_group")) --comm->group_queries;
    *result = ncclInProgress;
  }
  if (comm->ready) return ncclSuccess;
  ++comm->queries;
  comm->ready = !is_mode("hang_init") && (!is_mode("slow_init") || comm->queries > 50) &&
                (!comm->exchange || comm->exchange->complete());
  if (!comm->ready) *result = ncclInProgress;
  return ncclSuccess;
}

ncclResult_t ncclCommFinalize(ncclComm_t) { return ncclSuccess; }

ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  int const now = ++destroying;
  for (int most = max_destroying; most < now && !max_destroying.compare_exchange_weak(most, now);) {
  }
  if (is_mode("slow_destroy")) wait_for_all(destroying);
  --destroying;
  --live;
  delete comm;
  return ncclSuccess;
}

ncclResult_t ncclCommAbort(ncclComm_t comm) {
  auto const hung =
      static_cast<int>(std::chrono::floor<std::chrono::milliseconds>(comm->last_query - comm->made).count());
  for (int least = shortest_hang; hung < least && !shortest_hang.compare_exchange_weak(least, hung);) {
  }
  int const now = ++aborting;
  for (int most = max_aborting; most < now && !max_aborting.compare_exchange_weak(most, now);) {
  }
  if (comm->exchange) comm->exchange->cancel();
  drop_stream_work(comm);
  if (is_mode("slow_abort")) wait_for_all(aborting);
  --aborting;
  if (comm->split_result != nullptr) *comm->split_result = nullptr;
  ++aborted;
  return ncclCommDestroy(comm);
}

}  // extern "C"
