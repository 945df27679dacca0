// SPDX-License-Identifier: Apache-2.0
// A fake CUDA 13 runtime for frameworks built with it, preloaded before their libcudart on a machine without
// GPUs. Devices are those of fake_driver.c, counted and refused as in CUDA. Their memory is host memory,
// every call completes before it returns, and kernels do nothing, so results computed on a device mean
// nothing.
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static _Thread_local cudaError_t last_error = cudaSuccess;
static _Thread_local int current = 0;

static cudaError_t end(cudaError_t error) {
  if (error != cudaSuccess) last_error = error;
  return error;
}

static int device_count(void) {
  static int count = -1;
  if (count < 0 && (cuInit(0) != CUDA_SUCCESS || cuDeviceGetCount(&count) != CUDA_SUCCESS)) count = 0;
  return count;
}

static int is_device(int device) { return device >= 0 && device < device_count(); }

// Devices.

cudaError_t cudaGetDeviceCount(int* count) {
  *count = device_count();
  return end(*count > 0 ? cudaSuccess : cudaErrorNoDevice);
}

cudaError_t cudaSetDevice(int device) {
  if (!is_device(device)) return end(cudaErrorInvalidDevice);
  current = device;
  return cudaSuccess;
}

cudaError_t cudaGetDevice(int* device) {
  *device = current;
  return end(device_count() > 0 ? cudaSuccess : cudaErrorNoDevice);
}

cudaError_t cudaDeviceGetPCIBusId(char* text, int size, int device) {
  return end(is_device(device) && cuDeviceGetPCIBusId(text, size, device) == CUDA_SUCCESS
                 ? cudaSuccess
                 : cudaErrorInvalidDevice);
}

cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp* properties, int device) {
  char pci[16];
  if (!is_device(device)) return end(cudaErrorInvalidDevice);
  memset(properties, 0, sizeof *properties);
  cuDeviceGetPCIBusId(pci, sizeof pci, device);
  snprintf(properties->name, sizeof properties->name, "Fake GPU %s", pci);
  sscanf(pci, "%x:%x:%x", (unsigned*)&properties->pciDomainID, (unsigned*)&properties->pciBusID,
         (unsigned*)&properties->pciDeviceID);
  properties->major = 9;
  properties->multiProcessorCount = 132;
  properties->totalGlobalMem = (size_t)1 << 36;
  properties->warpSize = 32;
  properties->maxThreadsPerBlock = 1024;
  properties->maxThreadsPerMultiProcessor = 2048;
  properties->sharedMemPerBlock = 49152;
  properties->sharedMemPerMultiprocessor = 233472;
  properties->regsPerMultiprocessor = 65536;
  for (int i = 0; i < 3; ++i) properties->maxGridSize[i] = properties->maxThreadsDim[i] = 1024;
  return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int* value, enum cudaDeviceAttr attribute, int device) {
  if (!is_device(device)) return end(cudaErrorInvalidDevice);
  switch (attribute) {
    case cudaDevAttrComputeCapabilityMajor:
      *value = 9;
      break;
    case cudaDevAttrMultiProcessorCount:
      *value = 132;
      break;
    case cudaDevAttrWarpSize:
      *value = 32;
      break;
    case cudaDevAttrMaxThreadsPerBlock:
      *value = 1024;
      break;
    default:
      *value = 0;
  }
  return cudaSuccess;
}

cudaError_t cudaDeviceCanAccessPeer(int* can, int device, int peer) {
  *can = 0;
  return end(is_device(device) && is_device(peer) ? cudaSuccess : cudaErrorInvalidDevice);
}

cudaError_t cudaDeviceSynchronize(void) { return cudaSuccess; }
cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  *least = *greatest = 0;
  return cudaSuccess;
}
cudaError_t cudaDriverGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}

// Errors.

cudaError_t cudaGetLastError(void) {
  const cudaError_t error = last_error;
  last_error = cudaSuccess;
  return error;
}
cudaError_t cudaPeekAtLastError(void) { return last_error; }

// Memory.

cudaError_t cudaMalloc(void** memory, size_t size) {
  *memory = calloc(1, size > 0 ? size : 1);
  return end(*memory != NULL ? cudaSuccess : cudaErrorMemoryAllocation);
}
cudaError_t cudaFree(void* memory) {
  free(memory);
  return cudaSuccess;
}
cudaError_t cudaHostAlloc(void** memory, size_t size, unsigned flags) {
  (void)flags;
  return cudaMalloc(memory, size);
}
cudaError_t cudaFreeHost(void* memory) { return cudaFree(memory); }
cudaError_t cudaMemGetInfo(size_t* unused, size_t* all) {
  *unused = *all = (size_t)1 << 36;
  return cudaSuccess;
}
cudaError_t cudaMemcpy(void* to, const void* from, size_t size, enum cudaMemcpyKind kind) {
  (void)kind;
  memcpy(to, from, size);
  return cudaSuccess;
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t size, enum cudaMemcpyKind kind,
                            cudaStream_t stream) {
  (void)stream;
  return cudaMemcpy(to, from, size, kind);
}
cudaError_t cudaMemset(void* to, int value, size_t size) {
  memset(to, value, size);
  return cudaSuccess;
}
cudaError_t cudaMemsetAsync(void* to, int value, size_t size, cudaStream_t stream) {
  (void)stream;
  return cudaMemset(to, value, size);
}
cudaError_t cudaPointerGetAttributes(struct cudaPointerAttributes* attributes, const void* memory) {
  memset(attributes, 0, sizeof *attributes);
  attributes->type = cudaMemoryTypeUnregistered;
  attributes->hostPointer = (void*)memory;
  return cudaSuccess;
}

// Streams and events: handles without function.

static void* some_handle(void) { return malloc(1); }

cudaError_t cudaStreamCreate(cudaStream_t* stream) {
  *stream = some_handle();
  return cudaSuccess;
}
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  (void)flags;
  return cudaStreamCreate(stream);
}
cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags, int priority) {
  (void)flags, (void)priority;
  return cudaStreamCreate(stream);
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  free(stream);
  return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  (void)stream;
  return cudaSuccess;
}
cudaError_t cudaStreamQuery(cudaStream_t stream) { return cudaStreamSynchronize(stream); }
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags) {
  (void)event, (void)flags;
  return cudaStreamSynchronize(stream);
}
cudaError_t cudaStreamGetPriority(cudaStream_t stream, int* priority) {
  *priority = 0;
  return cudaStreamSynchronize(stream);
}
cudaError_t cudaStreamIsCapturing(cudaStream_t stream, enum cudaStreamCaptureStatus* status) {
  *status = cudaStreamCaptureStatusNone;
  return cudaStreamSynchronize(stream);
}
cudaError_t cudaStreamGetCaptureInfo(cudaStream_t stream, enum cudaStreamCaptureStatus* status,
                                     unsigned long long* id, cudaGraph_t* graph,
                                     const cudaGraphNode_t** nodes, const cudaGraphEdgeData** edges,
                                     size_t* count) {
  (void)id, (void)graph, (void)nodes, (void)edges, (void)count;
  return cudaStreamIsCapturing(stream, status);
}
cudaError_t cudaThreadExchangeStreamCaptureMode(enum cudaStreamCaptureMode* mode) {
  (void)mode;
  return cudaSuccess;
}
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  (void)flags;
  *event = some_handle();
  return cudaSuccess;
}
cudaError_t cudaEventCreate(cudaEvent_t* event) { return cudaEventCreateWithFlags(event, 0); }
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  free(event);
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  (void)event, (void)stream;
  return cudaSuccess;
}
cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned flags) {
  (void)flags;
  return cudaEventRecord(event, stream);
}
cudaError_t cudaEventQuery(cudaEvent_t event) { return cudaEventRecord(event, NULL); }
cudaError_t cudaEventSynchronize(cudaEvent_t event) { return cudaEventRecord(event, NULL); }
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t from, cudaEvent_t to) {
  (void)from, (void)to;
  *milliseconds = 0;
  return cudaSuccess;
}

// Kernels, and the driver's functions by name.

cudaError_t cudaLaunchKernel(const void* kernel, dim3 grid, dim3 block, void** arguments, size_t shared,
                             cudaStream_t stream) {
  (void)kernel, (void)grid, (void)block, (void)arguments, (void)shared, (void)stream;
  return cudaSuccess;
}
cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t* config, const void* kernel, void** arguments) {
  (void)config, (void)kernel, (void)arguments;
  return cudaSuccess;
}
cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void** arguments, size_t shared,
                               cudaStream_t stream) {
  return cudaLaunchKernel(kernel, grid, block, arguments, shared, stream);
}
cudaError_t __cudaGetKernel(cudaKernel_t* kernel, const void* function) {
  *kernel = (cudaKernel_t)function;
  return cudaSuccess;
}

static CUresult refuse(void) { return CUDA_ERROR_NOT_SUPPORTED; }

cudaError_t cudaGetDriverEntryPointByVersion(const char* name, void** function, unsigned version,
                                             unsigned long long flags,
                                             enum cudaDriverEntryPointQueryResult* found) {
  (void)version, (void)flags;
  *function =
      strcmp(name, "cuDevicePrimaryCtxGetState") == 0 ? (void*)cuDevicePrimaryCtxGetState : (void*)refuse;
  if (found != NULL) *found = cudaDriverEntryPointSuccess;
  return cudaSuccess;
}
