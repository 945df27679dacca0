// SPDX-License-Identifier: Apache-2.0
#include "compute/cuda/driver_library.hpp"

#include <fmt/format.h>

#include "muster/error.hpp"

namespace muster::compute::cuda {

DriverLibrary::DriverLibrary() {
  object.find(device_get_name, "cuDeviceGetName");
  object.find(device_get_attribute, "cuDeviceGetAttribute");
  object.find(context_get_current, "cuCtxGetCurrent");
  object.find(context_get_device, "cuCtxGetDevice");
  object.find(mem_get_info, MUSTER_SYMBOL(cuMemGetInfo));
  object.find(mem_host_alloc, "cuMemHostAlloc");
  object.find(mem_free_host, "cuMemFreeHost");
  object.find(memcpy_to_device, MUSTER_SYMBOL(cuMemcpyHtoDAsync));
  object.find(memcpy_to_host, MUSTER_SYMBOL(cuMemcpyDtoHAsync));
  object.find(stream_synchronize, "cuStreamSynchronize");
  object.find(event_synchronize, "cuEventSynchronize");
  object.find(function_set_attribute, "cuFuncSetAttribute");
}

void DriverLibrary::require(CUresult result, const char* what) const {
  if (result == CUDA_SUCCESS) return;
  throw Error(ErrorCode::device, fmt::format("the GPU failed: {}: CUDA says: {}", what, reason(result)));
}

}  // namespace muster::compute::cuda
