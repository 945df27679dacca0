// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "communicator/nccl/cuda_library.hpp"

namespace muster::detail {

/// A GPU as CUDA shows it to this process.
struct CudaDevice {
  CUdevice handle = 0;
  std::string pci_address;  ///< "0000:3b:00.0"
  std::string uuid;         ///< "GPU-xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx"
};

/// Starts CUDA and finds the GPU `placed` (PCI address or UUID), or number `local_rank` when that is empty.
/// @throws Error(ErrorCode::device) whose text is CUDA's reason, or what CUDA shows instead.
CudaDevice find_device(const CudaLibrary& cuda, const std::string& placed, int local_rank);

/// A PCI address in the form that CUDA, NVML and sysfs can be compared in: "0000:3b:00.0" for
/// "00000000:3B:00.0" and "3b:00.0". What is no PCI address comes back in lower case.
std::string canonical_pci(const std::string& address);

}  // namespace muster::detail
