// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

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

  /// The communicator of all ranks on GPU memory. Collective, within the deadline; its operations use
  /// `group`'s timeout.
  virtual std::shared_ptr<CommunicatorBackend> world(CommunicatorGroup group, const Deadline& deadline) = 0;
  /// Finalizes the communicators; they then throw on use. Collective.
  virtual void finalize(const Deadline& deadline) = 0;
  /// Aborts all communicators; new ones can be created.
  virtual void abort_all() noexcept = 0;
  /// Aborts all communicators, for good.
  virtual void abort() noexcept = 0;
};

/// Finds the GPU and makes its context current in the calling thread. `placed_gpu` is a PCI address or a UUID
/// ("GPU-…", "MIG-…"); if it is empty, CUDA's device number `local_rank` is used.
/// A defective GPU may block CUDA forever. The deadline bounds this call; after it the exit of the process is
/// bounded too.
/// @throws Error(ErrorCode::device) with `rank` (text of describe_rank()) and CUDA's or the loader's reason.
std::shared_ptr<Gpu> open_gpu(const std::string& placed_gpu, int local_rank, const std::string& rank,
                              const Deadline& deadline = Deadline(std::chrono::seconds(60)));

}  // namespace muster::detail
