// SPDX-License-Identifier: Apache-2.0
// Declarations shared by the parts of the fake NCCL (fake_nccl.cpp).
#pragma once

#include <nccl.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <future>
#include <memory>
#include <utility>

#include "fake_nccl_exchange.hpp"

namespace fake_nccl {

/// What a communicator's operations on streams share, which may outlive it.
struct StreamWork {
  std::atomic<bool> dropped = false;  ///< none starts from now on
  std::atomic<bool> runs = false;     ///< one is exchanging data
  std::atomic<ncclResult_t> error = ncclSuccess;
};
struct StreamOperation;

}  // namespace fake_nccl

struct ncclComm {
  using Clock = std::chrono::steady_clock;
  int ranks = 1;
  Clock::time_point made = Clock::now();
  Clock::time_point last_query = made;  // time of the last ncclCommGetAsyncError
  int queries = 0;
  bool ready = false;
  ncclComm_t* split_result = nullptr;  // output of a split that is in progress or failed
  int split_queries = 0;
  int group_queries = 0;
  std::shared_ptr<FakeExchange> exchange = nullptr;
  std::unique_ptr<FakeExchange> part = nullptr;  // of the split
  std::future<ncclResult_t> work = {};           // the current exchange
  std::shared_ptr<fake_nccl::StreamWork> on_streams = std::make_shared<fake_nccl::StreamWork>();
  std::shared_ptr<fake_nccl::StreamOperation> last = nullptr;  // enqueued on a stream
};

namespace fake_nccl {

/// Whether FAKE_NCCL is `what`.
bool is_mode(const char* what);
/// Sleeps 300 ms if FAKE_NCCL is `what`.
void delay_if(const char* what);
/// Appends an operation's name to the journal.
ncclResult_t log_operation(const char* operation, ncclComm_t comm);

/// Enqueues an operation on a stream of the fake CUDA, where it runs after the communicator's earlier ones,
/// as NCCL's do. Where the fake CUDA does work at once: runs it, with run_async() if it is an exchange.
ncclResult_t enqueue(ncclComm_t comm, cudaStream_t stream, std::function<ncclResult_t()> work);
/// Drops the operations on streams that have not begun, and waits for one that has. After cancel().
void drop_stream_work(ncclComm_t comm);
/// Waits for this thread's work on all streams.
void finish_streams();

/// Runs `work` on its own thread, after the communicator's earlier work.
template <typename Work>
ncclResult_t run_async(ncclComm_t comm, Work work) {
  if (comm->work.valid()) comm->work.wait();
  comm->work = std::async(std::launch::async, std::move(work));
  return ncclInProgress;
}

}  // namespace fake_nccl
