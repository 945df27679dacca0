// SPDX-License-Identifier: Apache-2.0
// What the parts of NCCL's test double (fake_nccl.cpp) share.
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

namespace fake_nccl {

/// FAKE_NCCL is this.
bool chosen(const char* what);
/// Takes 300 ms when it is.
void be_late(const char* what);
/// Writes the name of an operation down.
ncclResult_t note(const char* operation, ncclComm_t comm);

/// Does `work` on a thread of its own, after what the communicator began before.
template <typename Work>
ncclResult_t begin(ncclComm_t comm, Work work) {
  if (comm->work.valid()) comm->work.wait();
  comm->work = std::async(std::launch::async, std::move(work));
  return ncclInProgress;
}

}  // namespace fake_nccl
