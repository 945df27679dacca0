// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "communicator/nccl/nccl_comm.hpp"
#include "communicator/pending_work.hpp"

namespace muster::detail {

/// The work that a stream has when this object is made, as an event on it.
class NcclWork : public PendingWork {
 public:
  NcclWork(std::shared_ptr<NcclState> state, std::shared_ptr<NcclComm> comm, Stream stream);
  ~NcclWork() override;
  NcclWork(const NcclWork&) = delete;
  NcclWork& operator=(const NcclWork&) = delete;

  bool test() override;
  void wait() override;
  bool wait_until(const Deadline& deadline) override;
  /// The GPU's work goes on.
  void abandon() noexcept override { abandoned_ = true; }

 private:
  std::shared_ptr<NcclState> state_;
  std::shared_ptr<NcclComm> comm_;
  Deadline deadline_;
  CUevent end_ = nullptr;
  bool abandoned_ = false;
};

}  // namespace muster::detail
