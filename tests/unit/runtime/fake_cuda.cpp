// SPDX-License-Identifier: Apache-2.0
// A test double of the CUDA driver: one GPU whose memory is host memory. What goes wrong is chosen with
//   FAKE_CUDA_PCI      the GPU's PCI address (default 0000:3b:00.0)
//   FAKE_CUDA          "no_device" (cuInit fails), "none_visible", "stream_error", "stream_busy" (a stream
//   never ends), "no_stream" (none can be made), "no_memory" (an allocation of a MiB or more fails),
//   "late" (late_gpu.hpp), "capturing" (every stream is), "no_kernels" (a module has none for this GPU),
//   "hang" (cuInit never returns, and the end of the process waits for it)
// What is enqueued is done at once, unless it is late; fake_cuda_log() tells it, streams and events by
// numbers from 1, the default stream 0, and where the host waits for what is late. An event's time is how
// many were recorded before it, in milliseconds. Of a module only the first bytes are looked at; its kernels
// are those of fake_kernels.cpp, by their names.
#include "fake_cuda.hpp"

#include <cuda.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <string>
#include <thread>

#include "fake_kernels.hpp"
#include "late_gpu.hpp"

namespace {
using fake_cuda::variable;

// The only one, which a thread that works on the GPU must have made current.
int the_context = 0;
thread_local CUcontext current = nullptr;
std::atomic<int> stream_queries{0};
std::atomic<int> asked_in_capture{0};

// Ranks may be threads of one process: held inside each function of the driver that touches what follows.
// That stays to the end, for a job may be a static object and what a reducer in trouble leaves is no leak.
std::mutex driver;
auto& written = *new std::string;
auto& numbers = *new std::map<void*, int>;
auto& recorded = *new std::map<void*, int>;
int records = 0;
int live = 0;
auto& shared_bytes_allowed = *new std::map<CUfunction, unsigned>;
int made = 0;

// Of a stream or event; `driver` is held.
std::string text_of(void* handle) { return handle == nullptr ? "0" : std::to_string(numbers[handle]); }

template <typename Handle>
CUresult make(Handle* handle) {
  if (current == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  std::lock_guard const lock(driver);
  *handle = reinterpret_cast<Handle>(new int);
  numbers[*handle] = ++made;
  ++live;
  return CUDA_SUCCESS;
}

CUresult destroy(void* handle) {
  std::lock_guard const lock(driver);
  --live;
  numbers.erase(handle);
  recorded.erase(handle);
  delete static_cast<int*>(handle);
  return CUDA_SUCCESS;
}

[[noreturn]] void hang() {
  for (;;) std::this_thread::sleep_for(std::chrono::hours{1});
}

// As a driver's handlers may.
[[gnu::destructor]] void wait_at_end() {
  if (variable("FAKE_CUDA") == "hang") hang();
}
// What a kernel did wrong every later wait tells.
CUresult result_of_waiting() {
  return variable("FAKE_CUDA") == "stream_error" ? CUDA_ERROR_ILLEGAL_ADDRESS : CUDA_SUCCESS;
}

// `driver` is held.
void write(const std::string& line) { written += line + "; "; }
}  // namespace

namespace fake_cuda {

std::string variable(const char* name) {
  const char* const value = std::getenv(name);
  return value != nullptr ? value : "";
}

bool has_context() { return current != nullptr; }

void tell_enqueued(const std::string& what, CUstream stream) {
  std::lock_guard const lock(driver);
  write(what + " on " + text_of(stream));
}

void host_waited(bool has, const char* call) {
  if (!has) return;
  std::lock_guard const lock(driver);
  write(std::string("the host waits in ") + call);
}

}  // namespace fake_cuda

using fake_cuda::host_waited;

extern "C" {

CUresult cuInit(unsigned) {
  if (variable("FAKE_CUDA") == "hang") hang();
  return variable("FAKE_CUDA") == "no_device" ? CUDA_ERROR_NO_DEVICE : CUDA_SUCCESS;
}

CUresult cuGetErrorString(CUresult error, const char** text) {
  *text = error == CUDA_ERROR_NO_DEVICE           ? "no CUDA-capable device is detected"
          : error == CUDA_ERROR_NO_BINARY_FOR_GPU ? "no kernel image is available for execution on the device"
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

CUresult cuCtxGetCurrent(CUcontext* context) {
  *context = current;
  return CUDA_SUCCESS;
}

CUresult cuCtxGetDevice(CUdevice* device) {
  *device = 0;
  return current == nullptr ? CUDA_ERROR_INVALID_CONTEXT : CUDA_SUCCESS;
}

CUresult cuDeviceGetName(char* text, int length, CUdevice) {
  std::strncpy(text, "double of a GPU", static_cast<std::size_t>(length));
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetAttribute(int* value, CUdevice_attribute attribute, CUdevice) {
  if (attribute != CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR) return CUDA_ERROR_INVALID_VALUE;
  *value = variable("FAKE_CUDA") == "old" ? 7 : 9;
  return CUDA_SUCCESS;
}

CUresult cuLaunchHostFunc(CUstream stream, CUhostFn work, void* data) {
  if (current == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  late_gpu::enqueue(stream, [=] { work(data); });
  return CUDA_SUCCESS;
}

CUresult cuStreamSynchronize(CUstream stream) {
  if (current == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  host_waited(late_gpu::finish_stream(stream), "cuStreamSynchronize");
  return result_of_waiting();
}

CUresult cuEventSynchronize(CUevent event) {
  if (current == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  host_waited(late_gpu::finish_event(event), "cuEventSynchronize");
  return result_of_waiting();
}

CUresult cuCtxSetCurrent(CUcontext context) {
  current = context;
  return CUDA_SUCCESS;
}

int fake_cuda_stream_queries() { return stream_queries; }

CUresult cuStreamQuery(CUstream stream) {
  ++stream_queries;
  if (current == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  if (result_of_waiting() != CUDA_SUCCESS) return result_of_waiting();
  if (late_gpu::finish_stream(stream)) {
    host_waited(true, "cuStreamQuery");
    return CUDA_ERROR_NOT_READY;
  }
  return variable("FAKE_CUDA") == "stream_busy" ? CUDA_ERROR_NOT_READY : CUDA_SUCCESS;
}

/// How often it was asked for an event of a stream that is captured, which ends the real one's capture.
int fake_cuda_asked_in_capture() { return asked_in_capture; }

CUresult cuEventQuery(CUevent event) {
  if (current == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  if (variable("FAKE_CUDA") == "capturing") {
    ++asked_in_capture;
    return CUDA_ERROR_CAPTURED_EVENT;
  }
  if (!late_gpu::event_is_done(event)) return CUDA_ERROR_NOT_READY;
  return variable("FAKE_CUDA") == "stream_busy" ? CUDA_ERROR_NOT_READY : CUDA_SUCCESS;
}

CUresult cuStreamIsCapturing(CUstream, CUstreamCaptureStatus* status) {
  *status =
      variable("FAKE_CUDA") == "capturing" ? CU_STREAM_CAPTURE_STATUS_ACTIVE : CU_STREAM_CAPTURE_STATUS_NONE;
  return CUDA_SUCCESS;
}

CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode* mode) {
  *mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
  return CUDA_SUCCESS;
}

/// What was enqueued since it was forgotten; valid until the next call.
const char* fake_cuda_log() {
  static std::string told;
  std::lock_guard const lock(driver);
  told = written;
  return told.c_str();
}
void fake_cuda_forget() {
  std::lock_guard const lock(driver);
  written.clear();
}
int fake_cuda_live() {
  std::lock_guard const lock(driver);
  return live;
}

CUresult cuStreamCreate(CUstream* stream, unsigned flags) {
  if (variable("FAKE_CUDA") == "no_stream") return CUDA_ERROR_ILLEGAL_ADDRESS;
  return flags == CU_STREAM_NON_BLOCKING ? make(stream) : CUDA_ERROR_INVALID_VALUE;
}
CUresult cuStreamDestroy(CUstream stream) { return destroy(stream); }
CUresult cuEventCreate(CUevent* event, unsigned) { return make(event); }
CUresult cuEventDestroy(CUevent event) { return destroy(event); }

CUresult cuEventRecord(CUevent event, CUstream stream) {
  if (current == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  late_gpu::record(event, stream);
  std::lock_guard const lock(driver);
  recorded[event] = ++records;
  write("record " + text_of(event) + " on " + text_of(stream));
  return CUDA_SUCCESS;
}

CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned) {
  late_gpu::hold(stream, event);
  std::lock_guard const lock(driver);
  write(text_of(stream) + " waits for " + text_of(event));
  return CUDA_SUCCESS;
}

#undef cuEventElapsedTime
CUresult cuEventElapsedTime(float* milliseconds, CUevent begin, CUevent end) {
  std::lock_guard const lock(driver);
  if (!recorded.contains(begin) || !recorded.contains(end)) return CUDA_ERROR_INVALID_HANDLE;
  if (variable("FAKE_CUDA") == "stream_busy" || !late_gpu::event_is_done(begin) ||
      !late_gpu::event_is_done(end))
    return CUDA_ERROR_NOT_READY;
  *milliseconds = static_cast<float>(recorded[end] - recorded[begin]);
  return CUDA_SUCCESS;
}

CUresult cuModuleLoadData(CUmodule* module, const void* image) {
  if (current == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  if (variable("FAKE_CUDA") == "no_kernels") return CUDA_ERROR_NO_BINARY_FOR_GPU;
  // What nvcc -fatbin writes begins so.
  if (std::memcmp(image, "\x50\xed\x55\xba", 4) != 0) return CUDA_ERROR_INVALID_IMAGE;
  return make(module);
}

CUresult cuModuleUnload(CUmodule module) { return destroy(module); }

CUresult cuModuleGetFunction(CUfunction* function, CUmodule, const char* name) {
  auto* const kernel = const_cast<FakeKernel*>(find_fake_kernel(name));
  *function = reinterpret_cast<CUfunction>(kernel);
  return kernel != nullptr ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

CUresult cuFuncSetAttribute(CUfunction function, CUfunction_attribute attribute, int value) {
  if (attribute != CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES || value < 0 || value > 227 << 10)
    return CUDA_ERROR_INVALID_VALUE;
  std::lock_guard const lock(driver);
  shared_bytes_allowed[function] = static_cast<unsigned>(value);
  return CUDA_SUCCESS;
}

CUresult cuLaunchKernel(CUfunction function, unsigned blocks, unsigned blocks_y, unsigned blocks_z,
                        unsigned threads, unsigned, unsigned, unsigned shared_bytes, CUstream stream,
                        void** arguments, void**) {
  if (current == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  if (blocks == 0 || blocks_y == 0 || blocks_z == 0 || blocks_y > 65535 || blocks_z > 65535 || threads == 0 ||
      threads > 1024)
    return CUDA_ERROR_INVALID_VALUE;
  {
    std::lock_guard const lock(driver);
    auto const allowed = shared_bytes_allowed.find(function);
    if (shared_bytes > (allowed != shared_bytes_allowed.end() ? allowed->second : 48u << 10))
      return CUDA_ERROR_INVALID_VALUE;
  }
  auto const* const kernel = reinterpret_cast<const FakeKernel*>(function);
  late_gpu::enqueue(stream,
                    kernel->prepare({{blocks, blocks_y, blocks_z}, threads, shared_bytes}, arguments));
  std::lock_guard const lock(driver);
  write(std::string(kernel->name) + " on " + text_of(stream));
  return CUDA_SUCCESS;
}

}  // extern "C"
