// SPDX-License-Identifier: Apache-2.0
#include "compute/cuda/driver_library.hpp"

#include <fmt/format.h>

#include "muster/error.hpp"

namespace muster::compute::cuda {

// cuda.h renames functions whose signature changed (cuMemAlloc is cuMemAlloc_v2), so the names to look up are
// spelled through it.
#define MUSTER_TEXT(name) #name
#define MUSTER_NAME(name) MUSTER_TEXT(name)

DriverLibrary::DriverLibrary()
    : object("MUSTER_CUDA_LIBRARY", "libcuda.so.1", "is the NVIDIA driver installed on this node?") {
  object.find(init, "cuInit");
  object.find(get_error_string, "cuGetErrorString");
  object.find(device_get, "cuDeviceGet");
  object.find(device_get_name, "cuDeviceGetName");
  object.find(device_get_attribute, "cuDeviceGetAttribute");
  object.find(primary_context_retain, "cuDevicePrimaryCtxRetain");
  object.find(context_get_current, "cuCtxGetCurrent");
  object.find(context_set_current, "cuCtxSetCurrent");
  object.find(context_get_device, "cuCtxGetDevice");
  object.find(mem_get_info, MUSTER_NAME(cuMemGetInfo));
  object.find(mem_alloc, MUSTER_NAME(cuMemAlloc));
  object.find(mem_free, MUSTER_NAME(cuMemFree));
  object.find(mem_host_alloc, "cuMemHostAlloc");
  object.find(mem_free_host, "cuMemFreeHost");
  object.find(memcpy_to_device, MUSTER_NAME(cuMemcpyHtoDAsync));
  object.find(memcpy_to_host, MUSTER_NAME(cuMemcpyDtoHAsync));
  object.find(memset_bytes, "cuMemsetD8Async");
  object.find(stream_create, "cuStreamCreate");
  object.find(stream_destroy, MUSTER_NAME(cuStreamDestroy));
  object.find(stream_synchronize, "cuStreamSynchronize");
  object.find(event_create, "cuEventCreate");
  object.find(event_destroy, MUSTER_NAME(cuEventDestroy));
  object.find(event_record, "cuEventRecord");
  object.find(event_synchronize, "cuEventSynchronize");
  // The same function as its second version, which drivers before 12.8 lack.
  object.find(event_elapsed_time, "cuEventElapsedTime");
  object.find(module_load_data, "cuModuleLoadData");
  object.find(module_unload, "cuModuleUnload");
  object.find(module_get_function, "cuModuleGetFunction");
  object.find(function_set_attribute, "cuFuncSetAttribute");
  object.find(launch_kernel, "cuLaunchKernel");
}

std::string DriverLibrary::reason(CUresult result) const {
  const char* text = nullptr;
  if (get_error_string(result, &text) == CUDA_SUCCESS && text != nullptr) return text;
  return "CUDA error " + std::to_string(static_cast<int>(result));
}

void DriverLibrary::require(CUresult result, const char* what) const {
  if (result == CUDA_SUCCESS) return;
  throw Error(Fault::device, fmt::format("the GPU failed: {}: CUDA says: {}", what, reason(result)));
}

}  // namespace muster::compute::cuda
