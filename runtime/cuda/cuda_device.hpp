// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "cuda/cuda_library.hpp"

namespace muster::detail {

/// A GPU that CUDA shows to this process.
struct CudaDevice {
  CUdevice handle = 0;
  std::string pci_address;  ///< "0000:3b:00.0"
  std::string uuid;         ///< "GPU-xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx"
};

/// Initialises CUDA and finds the GPU `placed_gpu` (PCI address or UUID), or GPU number `local_rank` if that
/// is empty.
/// @throws Error(ErrorCode::device) with CUDA's reason, or with the GPUs that CUDA shows instead.
CudaDevice find_device(const CudaLibrary& cuda, const std::string& placed_gpu, int local_rank);

/// A PCI address in one form, to compare those of CUDA, NVML and sysfs: "0000:3b:00.0" for "00000000:3B:00.0"
/// and "3b:00.0". Other text is returned in lower case.
std::string canonical_pci(const std::string& address);

}  // namespace muster::detail
