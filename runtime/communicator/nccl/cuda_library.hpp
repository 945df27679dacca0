// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda.h>

#include <string>

#include "shared_object.hpp"

namespace muster::detail {

/// The functions of the CUDA driver that the runtime calls. The runtime uses the driver, not the CUDA runtime
/// library, because every machine with an NVIDIA driver has it under one name, whatever CUDA version the
/// program was built with.
struct CudaLibrary {
  /// Loads libcuda.so.1, or the library that MUSTER_CUDA_LIBRARY names.
  /// @throws Error(ErrorCode::device)
  CudaLibrary();

  SharedObject object;
  decltype(::cuInit)* init = nullptr;
  decltype(::cuGetErrorString)* get_error_string = nullptr;
  decltype(::cuDeviceGetCount)* device_get_count = nullptr;
  decltype(::cuDeviceGet)* device_get = nullptr;
  decltype(::cuDeviceGetPCIBusId)* device_get_pci_bus_id = nullptr;
  decltype(::cuDeviceGetUuid)* device_get_uuid = nullptr;
  decltype(::cuDevicePrimaryCtxRetain)* primary_context_retain = nullptr;
  decltype(::cuCtxSetCurrent)* context_set_current = nullptr;
  decltype(::cuMemAlloc)* mem_alloc = nullptr;
  decltype(::cuMemFree)* mem_free = nullptr;
  decltype(::cuStreamQuery)* stream_query = nullptr;
  decltype(::cuStreamCreate)* stream_create = nullptr;
  decltype(::cuStreamDestroy)* stream_destroy = nullptr;
  decltype(::cuStreamWaitEvent)* stream_wait_event = nullptr;
  decltype(::cuStreamIsCapturing)* stream_is_capturing = nullptr;
  decltype(::cuThreadExchangeStreamCaptureMode)* exchange_capture_mode = nullptr;
  decltype(::cuEventCreate)* event_create = nullptr;
  decltype(::cuEventDestroy)* event_destroy = nullptr;
  decltype(::cuEventRecord)* event_record = nullptr;
  decltype(::cuEventQuery)* event_query = nullptr;
  decltype(::cuEventElapsedTime)* event_elapsed_time = nullptr;
  decltype(::cuMemcpyDtoDAsync)* memcpy_on_device = nullptr;
  decltype(::cuMemsetD8Async)* memset_bytes = nullptr;
  decltype(::cuModuleLoadData)* module_load_data = nullptr;
  decltype(::cuModuleUnload)* module_unload = nullptr;
  decltype(::cuModuleGetFunction)* module_get_function = nullptr;
  decltype(::cuLaunchKernel)* launch_kernel = nullptr;

  /// CUDA's text for an error.
  std::string reason(CUresult result) const;
};

}  // namespace muster::detail
