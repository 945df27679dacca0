// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "communicator/backend.hpp"
#include "communicator/communicator_group.hpp"
#include "deadline.hpp"

namespace muster::detail {

/// This rank's GPU and the NCCL communicators on it. Not thread-safe.
class Gpu {
 public:
  virtual ~Gpu() = default;

  virtual const std::string& pci_address() const noexcept = 0;
  virtual const std::string& uuid() const noexcept = 0;
  virtual const std::string& nccl_version() const noexcept = 0;

  /// All ranks on GPU memory. Collective; bounded by the deadline; operations use `group`'s timeout.
  virtual std::shared_ptr<CommunicatorBackend> world(CommunicatorGroup group, const Deadline& deadline) = 0;
  /// Closes the communicators in order; they then refuse to work. Collective.
  virtual void finish(const Deadline& deadline) = 0;
  /// The job goes on when ranks are lost: a failure leaves the communicators to the next three functions.
  virtual void survive() noexcept = 0;
  /// The world is there and this NCCL can make it smaller (2.27).
  virtual bool can_shrink() const noexcept = 0;
  /// What is left of the world without `lost`, ranks of it; all older communicators are aborted. Collective
  /// over those that are left.
  virtual std::shared_ptr<CommunicatorBackend> shrink_world(CommunicatorGroup group, const std::vector<int>& lost,
                                                    const Deadline& deadline) = 0;
  /// Aborts them; new ones can be made.
  virtual void end_all() noexcept = 0;
  /// Aborts them.
  virtual void abandon() noexcept = 0;
};

/// Finds the GPU and makes it the calling thread's current one. `placed` is a PCI address or a UUID ("GPU-…",
/// "MIG-…"); when it is empty, CUDA's device number `local_rank`.
/// A GPU that is sick may hold CUDA for ever: bounded by the deadline, and the end of the process then too.
/// @throws Error(ErrorCode::device) with the GPU, `rank` (as describe_rank() has it) and CUDA's or the
/// loader's own reason.
std::shared_ptr<Gpu> open_gpu(const std::string& placed, int local_rank, const std::string& rank,
                              const Deadline& deadline = Deadline(std::chrono::seconds(60)));

}  // namespace muster::detail
