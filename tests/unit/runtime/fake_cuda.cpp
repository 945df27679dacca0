// SPDX-License-Identifier: Apache-2.0
// A test double of the CUDA driver: one GPU whose memory is host memory. What goes wrong is chosen with
//   FAKE_CUDA_PCI      the GPU's PCI address (default 0000:3b:00.0)
//   FAKE_CUDA          "no_device" (cuInit fails), "none_visible", "stream_error", "stream_busy" (a stream
//   never ends)
#include <cuda.h>

#include <cstdlib>
#include <cstring>
#include <string>

namespace {
std::string variable(const char* name) {
  const char* const value = std::getenv(name);
  return value != nullptr ? value : "";
}

// The only one, which a thread that works on the GPU must have made current.
int the_context = 0;
thread_local CUcontext current = nullptr;
int stream_queries = 0;
}  // namespace

extern "C" {

CUresult cuInit(unsigned) {
  return variable("FAKE_CUDA") == "no_device" ? CUDA_ERROR_NO_DEVICE : CUDA_SUCCESS;
}

CUresult cuGetErrorString(CUresult error, const char** text) {
  *text = error == CUDA_ERROR_NO_DEVICE ? "no CUDA-capable device is detected"
                                        : "an illegal memory access was encountered";
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetCount(int* count) {
  *count = variable("FAKE_CUDA") == "none_visible" ? 0 : 1;
  return CUDA_SUCCESS;
}

CUresult cuDeviceGet(CUdevice* device, int ordinal) {
  *device = ordinal;
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetPCIBusId(char* text, int length, CUdevice) {
  auto address = variable("FAKE_CUDA_PCI");
  if (address.empty()) address = "0000:3B:00.0";
  std::strncpy(text, address.c_str(), static_cast<std::size_t>(length));
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetUuid(CUuuid* uuid, CUdevice) {
  for (int i = 0; i < 16; ++i) uuid->bytes[i] = static_cast<char>(0x10 + i);
  return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice) {
  *context = reinterpret_cast<CUcontext>(&the_context);
  return CUDA_SUCCESS;
}

CUresult cuCtxSetCurrent(CUcontext context) {
  current = context;
  return CUDA_SUCCESS;
}

CUresult cuMemAlloc(CUdeviceptr* pointer, std::size_t bytes) {
  if (current == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  *pointer = reinterpret_cast<CUdeviceptr>(std::calloc(1, bytes));
  return CUDA_SUCCESS;
}

CUresult cuMemFree(CUdeviceptr pointer) {
  std::free(reinterpret_cast<void*>(pointer));
  return CUDA_SUCCESS;
}

CUresult cuStreamCreate(CUstream* stream, unsigned flags) {
  if (current == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  if (flags != CU_STREAM_NON_BLOCKING) return CUDA_ERROR_INVALID_VALUE;
  *stream = reinterpret_cast<CUstream>(new int);
  return CUDA_SUCCESS;
}
CUresult cuStreamDestroy(CUstream stream) {
  delete reinterpret_cast<int*>(stream);
  return CUDA_SUCCESS;
}

int fake_cuda_stream_queries() { return stream_queries; }

CUresult cuStreamQuery(CUstream) {
  ++stream_queries;
  if (current == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  if (variable("FAKE_CUDA") == "stream_error") return CUDA_ERROR_ILLEGAL_ADDRESS;
  return variable("FAKE_CUDA") == "stream_busy" ? CUDA_ERROR_NOT_READY : CUDA_SUCCESS;
}

}  // extern "C"
