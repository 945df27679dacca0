// SPDX-License-Identifier: Apache-2.0
// Declarations shared by the parts of the fake NCCL (fake_nccl.cpp).
#pragma once

#include <nccl.h>

#include <chrono>
#include <future>
#include <memory>
#include <utility>

#include "fake_nccl_exchange.hpp"

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
  std::unique_ptr<FakeExchange> exchange = nullptr;
  std::unique_ptr<FakeExchange> part = nullptr;  // of the split
  std::future<ncclResult_t> work = {};           // the current exchange
};

namespace fake_nccl {

/// Whether FAKE_NCCL is `what`.
bool is_mode(const char* what);
/// Sleeps 300 ms if FAKE_NCCL is `what`.
void delay_if(const char* what);
/// Appends an operation's name to the journal.
ncclResult_t log_operation(const char* operation, ncclComm_t comm);

/// Runs `work` on its own thread, after the communicator's earlier work.
template <typename Work>
ncclResult_t run_async(ncclComm_t comm, Work work) {
  if (comm->work.valid()) comm->work.wait();
  comm->work = std::async(std::launch::async, std::move(work));
  return ncclInProgress;
}

}  // namespace fake_nccl
