// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda.h>

#include <string>

#include "shared_object.hpp"

namespace muster::compute::cuda {

/// The functions of the CUDA driver that the trainer calls, loaded while it runs: one program for machines
/// with and without a GPU.
struct DriverLibrary {
  /// libcuda.so.1, or what MUSTER_CUDA_LIBRARY names.
  /// @throws Error(Fault::device)
  DriverLibrary();

  detail::SharedObject object;
  decltype(::cuInit)* init = nullptr;
  decltype(::cuGetErrorString)* get_error_string = nullptr;
  decltype(::cuDeviceGet)* device_get = nullptr;
  decltype(::cuDeviceGetName)* device_get_name = nullptr;
  decltype(::cuDeviceGetAttribute)* device_get_attribute = nullptr;
  decltype(::cuDevicePrimaryCtxRetain)* primary_context_retain = nullptr;
  decltype(::cuCtxGetCurrent)* context_get_current = nullptr;
  decltype(::cuCtxSetCurrent)* context_set_current = nullptr;
  decltype(::cuCtxGetDevice)* context_get_device = nullptr;
  decltype(::cuMemGetInfo)* mem_get_info = nullptr;
  decltype(::cuMemAlloc)* mem_alloc = nullptr;
  decltype(::cuMemFree)* mem_free = nullptr;
  decltype(::cuMemHostAlloc)* mem_host_alloc = nullptr;
  decltype(::cuMemFreeHost)* mem_free_host = nullptr;
  decltype(::cuMemcpyHtoDAsync)* memcpy_to_device = nullptr;
  decltype(::cuMemcpyDtoHAsync)* memcpy_to_host = nullptr;
  decltype(::cuMemsetD8Async)* memset_bytes = nullptr;
  decltype(::cuStreamCreate)* stream_create = nullptr;
  decltype(::cuStreamDestroy)* stream_destroy = nullptr;
  decltype(::cuStreamSynchronize)* stream_synchronize = nullptr;
  decltype(::cuEventCreate)* event_create = nullptr;
  decltype(::cuEventDestroy)* event_destroy = nullptr;
  decltype(::cuEventRecord)* event_record = nullptr;
  decltype(::cuEventSynchronize)* event_synchronize = nullptr;
  decltype(::cuEventElapsedTime)* event_elapsed_time = nullptr;
  decltype(::cuModuleLoadData)* module_load_data = nullptr;
  decltype(::cuModuleUnload)* module_unload = nullptr;
  decltype(::cuModuleGetFunction)* module_get_function = nullptr;
  decltype(::cuFuncSetAttribute)* function_set_attribute = nullptr;
  decltype(::cuLaunchKernel)* launch_kernel = nullptr;

  /// CUDA's text for an error.
  std::string reason(CUresult result) const;
  /// @throws Error(Fault::device) with what was tried and CUDA's reason, unless `result` is success.
  void require(CUresult result, const char* what) const;
};

}  // namespace muster::compute::cuda
