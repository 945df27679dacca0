// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda.h>

#include <cstddef>
#include <string>

#include "shared_object.hpp"

namespace muster::detail {

/// The functions of the CUDA driver that the runtime calls. The runtime uses the driver, not the CUDA runtime
/// library, because every machine with an NVIDIA driver has it under one name, whatever CUDA version the
/// program was built with.
struct CudaLibrary {
  /// libcuda.so.1, or the library that MUSTER_CUDA_LIBRARY names.
  /// @throws Error(ErrorCode::device) from the constructor.
  SharedObject object{"MUSTER_CUDA_LIBRARY", "libcuda.so.1", "is the NVIDIA driver installed on this node?"};
  decltype(::cuInit)* init = object.find("cuInit");
  decltype(::cuGetErrorString)* get_error_string = object.find("cuGetErrorString");
  decltype(::cuDeviceGetCount)* device_get_count = object.find("cuDeviceGetCount");
  decltype(::cuDeviceGet)* device_get = object.find("cuDeviceGet");
  decltype(::cuDeviceGetPCIBusId)* device_get_pci_bus_id = object.find("cuDeviceGetPCIBusId");
  decltype(::cuDeviceGetUuid)* device_get_uuid = object.find(MUSTER_SYMBOL(cuDeviceGetUuid));
  decltype(::cuDevicePrimaryCtxRetain)* primary_context_retain = object.find("cuDevicePrimaryCtxRetain");
  decltype(::cuCtxSetCurrent)* context_set_current = object.find("cuCtxSetCurrent");
  decltype(::cuMemAlloc)* mem_alloc = object.find(MUSTER_SYMBOL(cuMemAlloc));
  decltype(::cuMemFree)* mem_free = object.find(MUSTER_SYMBOL(cuMemFree));
  decltype(::cuStreamQuery)* stream_query = object.find("cuStreamQuery");
  decltype(::cuStreamCreate)* stream_create = object.find("cuStreamCreate");
  decltype(::cuCtxGetStreamPriorityRange)* get_stream_priorities = object.find("cuCtxGetStreamPriorityRange");
  decltype(::cuStreamCreateWithPriority)* stream_create_with_priority =
      object.find("cuStreamCreateWithPriority");
  decltype(::cuStreamDestroy)* stream_destroy = object.find(MUSTER_SYMBOL(cuStreamDestroy));
  decltype(::cuStreamWaitEvent)* stream_wait_event = object.find("cuStreamWaitEvent");
  decltype(::cuStreamIsCapturing)* stream_is_capturing = object.find("cuStreamIsCapturing");
  decltype(::cuThreadExchangeStreamCaptureMode)* exchange_capture_mode =
      object.find("cuThreadExchangeStreamCaptureMode");
  decltype(::cuEventCreate)* event_create = object.find("cuEventCreate");
  decltype(::cuEventDestroy)* event_destroy = object.find(MUSTER_SYMBOL(cuEventDestroy));
  decltype(::cuEventRecord)* event_record = object.find("cuEventRecord");
  decltype(::cuEventQuery)* event_query = object.find("cuEventQuery");
  /// Equivalent to its _v2, which drivers before 12.8 lack.
  decltype(::cuEventElapsedTime)* event_elapsed_time = object.find("cuEventElapsedTime");
  decltype(::cuMemcpyDtoDAsync)* memcpy_on_device = object.find(MUSTER_SYMBOL(cuMemcpyDtoDAsync));
  decltype(::cuMemsetD8Async)* memset_bytes = object.find("cuMemsetD8Async");
  decltype(::cuModuleLoadData)* module_load_data = object.find("cuModuleLoadData");
  decltype(::cuModuleUnload)* module_unload = object.find("cuModuleUnload");
  decltype(::cuModuleGetFunction)* module_get_function = object.find("cuModuleGetFunction");
  /// cuFuncGetParamInfo; null before CUDA 12.4.
  CUresult (*function_get_param_info)(CUfunction, std::size_t index, std::size_t* offset,
                                      std::size_t* bytes) = object.find_optional("cuFuncGetParamInfo");
  decltype(::cuLaunchKernel)* launch_kernel = object.find("cuLaunchKernel");

  /// CUDA's text for an error.
  std::string reason(CUresult result) const;
};

}  // namespace muster::detail
