// SPDX-License-Identifier: Apache-2.0
#include "communicator/backend.hpp"

#include <utility>

#include "communicator/pending_work.hpp"
#include "communicator/work_queue.hpp"

namespace muster::detail {

CommunicatorBackend::CommunicatorBackend() = default;
CommunicatorBackend::~CommunicatorBackend() = default;

std::unique_ptr<PendingWork> CommunicatorBackend::start_group(GroupedCalls::Calls calls) {
  if (!queue_) queue_ = std::make_unique<WorkQueue>(*this);
  return queue_->add(std::move(calls));
}

void CommunicatorBackend::wait_for_started() {
  if (queue_) queue_->wait_for_all();
}

}  // namespace muster::detail
