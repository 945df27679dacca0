// SPDX-License-Identifier: Apache-2.0
#include "communicator/nccl/cuda_library.hpp"

namespace muster::detail {

CudaLibrary::CudaLibrary()
    : object("MUSTER_CUDA_LIBRARY", "libcuda.so.1", "is the NVIDIA driver installed on this node?") {
  object.find(init, "cuInit");
  object.find(get_error_string, "cuGetErrorString");
  object.find(device_get_count, "cuDeviceGetCount");
  object.find(device_get, "cuDeviceGet");
  object.find(device_get_pci_bus_id, "cuDeviceGetPCIBusId");
  object.find(device_get_uuid, MUSTER_SYMBOL(cuDeviceGetUuid));
  object.find(primary_context_retain, "cuDevicePrimaryCtxRetain");
  object.find(context_set_current, "cuCtxSetCurrent");
  object.find(mem_alloc, MUSTER_SYMBOL(cuMemAlloc));
  object.find(mem_free, MUSTER_SYMBOL(cuMemFree));
  object.find(stream_query, "cuStreamQuery");
  object.find(stream_create, "cuStreamCreate");
  object.find(stream_destroy, MUSTER_SYMBOL(cuStreamDestroy));
  object.find(stream_wait_event, "cuStreamWaitEvent");
  object.find(stream_is_capturing, "cuStreamIsCapturing");
  object.find(exchange_capture_mode, "cuThreadExchangeStreamCaptureMode");
  object.find(event_create, "cuEventCreate");
  object.find(event_destroy, MUSTER_SYMBOL(cuEventDestroy));
  object.find(event_record, "cuEventRecord");
  object.find(event_query, "cuEventQuery");
  // Equivalent to its _v2, which drivers before 12.8 lack.
  object.find(event_elapsed_time, "cuEventElapsedTime");
  object.find(memcpy_on_device, MUSTER_SYMBOL(cuMemcpyDtoDAsync));
  object.find(memset_bytes, "cuMemsetD8Async");
  object.find(module_load_data, "cuModuleLoadData");
  object.find(module_unload, "cuModuleUnload");
  object.find(module_get_function, "cuModuleGetFunction");
  object.find(launch_kernel, "cuLaunchKernel");
}

std::string CudaLibrary::reason(CUresult result) const {
  const char* text = nullptr;
  if (get_error_string(result, &text) == CUDA_SUCCESS && text != nullptr) return text;
  return "CUDA error " + std::to_string(static_cast<int>(result));
}

}  // namespace muster::detail
