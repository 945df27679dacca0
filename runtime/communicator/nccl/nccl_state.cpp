// SPDX-License-Identifier: Apache-2.0
#include "communicator/nccl/nccl_state.hpp"

#include <algorithm>
#include <utility>

#include "communicator/nccl/nccl_comm.hpp"
#include "communicator/nccl/nccl_watchdog.hpp"
#include "log.hpp"

namespace muster::detail {

NcclState::NcclState() = default;
NcclState::~NcclState() = default;

std::vector<NcclComm*> NcclState::open_communicators() {
  std::lock_guard const lock(mutex);
  return all;
}

void NcclState::finalize_all(const Deadline& deadline) noexcept {
  // In the same order on every rank: the newest first.
  auto youngest_first = open_communicators();
  std::reverse(youngest_first.begin(), youngest_first.end());
  for (NcclComm* comm : youngest_first) comm->begin_finalize();
  for (NcclComm* comm : youngest_first) comm->await_finalize(deadline);
  std::vector<BackgroundCall> calls;
  for (NcclComm* comm : youngest_first) {
    if (auto call = comm->begin_destroy()) calls.push_back(std::move(*call));
  }
  Deadline const bound(nccl_abort_wait);
  for (const auto& call : calls) call.wait(bound);
  log::debug("nccl: {} communicators ended", calls.size());
}

void NcclState::abort(const std::vector<NcclComm*>& which) noexcept {
  Deadline const deadline(nccl_abort_wait);
  std::vector<BackgroundCall> calls;
  {
    std::lock_guard const lock(mutex);  // not during a poll of the watchdog
    for (NcclComm* comm : which) {
      if (std::find(all.begin(), all.end(), comm) == all.end()) continue;  // another thread has destroyed it
      if (auto call = comm->begin_abort()) calls.push_back(std::move(*call));
    }
  }
  for (const auto& call : calls) call.wait(deadline);
}

}  // namespace muster::detail
