// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cuda/cuda_library.hpp"

namespace muster::compute::cuda {

/// The CUDA driver functions that the trainer calls in addition to the runtime's.
struct DriverLibrary : detail::CudaLibrary {
  decltype(::cuDeviceGetName)* device_get_name = object.find("cuDeviceGetName");
  decltype(::cuDeviceGetAttribute)* device_get_attribute = object.find("cuDeviceGetAttribute");
  decltype(::cuCtxGetCurrent)* context_get_current = object.find("cuCtxGetCurrent");
  decltype(::cuCtxGetDevice)* context_get_device = object.find("cuCtxGetDevice");
  decltype(::cuMemGetInfo)* mem_get_info = object.find(MUSTER_SYMBOL(cuMemGetInfo));
  decltype(::cuMemHostAlloc)* mem_host_alloc = object.find("cuMemHostAlloc");
  decltype(::cuMemFreeHost)* mem_free_host = object.find("cuMemFreeHost");
  decltype(::cuMemHostRegister)* mem_host_register = object.find(MUSTER_SYMBOL(cuMemHostRegister));
  decltype(::cuMemHostUnregister)* mem_host_unregister = object.find("cuMemHostUnregister");
  decltype(::cuMemcpyHtoDAsync)* memcpy_to_device = object.find(MUSTER_SYMBOL(cuMemcpyHtoDAsync));
  decltype(::cuMemcpyDtoHAsync)* memcpy_to_host = object.find(MUSTER_SYMBOL(cuMemcpyDtoHAsync));
  decltype(::cuStreamSynchronize)* stream_synchronize = object.find("cuStreamSynchronize");
  decltype(::cuFuncSetAttribute)* function_set_attribute = object.find("cuFuncSetAttribute");

  /// @throws Error(ErrorCode::device) with the failed operation and CUDA's reason, unless `result` is
  /// success.
  void require(CUresult result, const char* what) const;
};

}  // namespace muster::compute::cuda
