// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "communicator/nccl/cuda_library.hpp"

namespace muster::compute::cuda {

/// The CUDA driver functions that the trainer calls in addition to the runtime's.
struct DriverLibrary : detail::CudaLibrary {
  /// @throws Error(ErrorCode::device)
  DriverLibrary();

  decltype(::cuDeviceGetName)* device_get_name = nullptr;
  decltype(::cuDeviceGetAttribute)* device_get_attribute = nullptr;
  decltype(::cuCtxGetCurrent)* context_get_current = nullptr;
  decltype(::cuCtxGetDevice)* context_get_device = nullptr;
  decltype(::cuMemGetInfo)* mem_get_info = nullptr;
  decltype(::cuMemHostAlloc)* mem_host_alloc = nullptr;
  decltype(::cuMemFreeHost)* mem_free_host = nullptr;
  decltype(::cuMemcpyHtoDAsync)* memcpy_to_device = nullptr;
  decltype(::cuMemcpyDtoHAsync)* memcpy_to_host = nullptr;
  decltype(::cuStreamSynchronize)* stream_synchronize = nullptr;
  decltype(::cuEventSynchronize)* event_synchronize = nullptr;
  decltype(::cuFuncSetAttribute)* function_set_attribute = nullptr;

  /// @throws Error(ErrorCode::device) with the failed operation and CUDA's reason, unless `result` is
  /// success.
  void require(CUresult result, const char* what) const;
};

}  // namespace muster::compute::cuda
