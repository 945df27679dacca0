// SPDX-License-Identifier: Apache-2.0
#include "communicator/nccl/nccl_work.hpp"

#include <utility>

namespace muster::detail {

NcclWork::NcclWork(std::shared_ptr<NcclState> state, std::shared_ptr<NcclComm> comm, Stream stream)
    : state_(std::move(state)), comm_(std::move(comm)), deadline_(comm_->operation_deadline()) {
  comm_->make_context_current();
  comm_->require_cuda(state_->cuda.event_create(&end_, CU_EVENT_DISABLE_TIMING), "no event");
  auto const recorded = state_->cuda.event_record(end_, stream);
  if (recorded != CUDA_SUCCESS) state_->cuda.event_destroy(end_);
  comm_->require_cuda(recorded, "an event");
}

NcclWork::~NcclWork() { state_->cuda.event_destroy(end_); }

bool NcclWork::test() { return comm_->test(end_, deadline_); }

void NcclWork::wait() {
  if (!abandoned_) comm_->wait(end_, deadline_);
}

bool NcclWork::wait_until(const Deadline& deadline) { return comm_->wait(end_, deadline_, &deadline); }

}  // namespace muster::detail
