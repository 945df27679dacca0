// SPDX-License-Identifier: Apache-2.0
// A fake CUDA driver: one GPU whose memory is host memory. Environment variables select its faults:
//   FAKE_CUDA_PCI  the GPU's PCI address (default 0000:3b:00.0)
//   FAKE_CUDA      one of
//     no_device    cuInit fails
//     none_visible no device is visible
//     old          compute capability 7
//     stream_error waits for a stream or event fail
//     stream_busy  a stream never completes
//     no_stream    no stream can be created
//     no_memory    an allocation of a MiB or more fails
//     late         work runs as late as possible (stream_queues.hpp)
//     capturing    every stream is being captured
//     no_kernels   a module has no kernels for this GPU
//     other_kernels  every parameter of a kernel has 4 bytes
//     hang         cuInit never returns, and the exit of the process waits for it
//   FAKE_CUDA_FREE_MIB  the GPU's free memory in MiB (default 8192)
//   FAKE_CUDA_SEED  a number: work runs in a random order that the program allows (stream_queues.hpp)
// Enqueued work runs at once, unless FAKE_CUDA is "late" or there is a seed. fake_cuda_log() returns a log of
// it, with streams and events as numbers from 1, the default stream as 0, and the host's waits for late work.
// An event's time in milliseconds is the number of events that were recorded before it, and what
// fake_cuda_spend() added. Only the first bytes of a module are read; its kernels are those of
// fake_kernels.cpp, by name.
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
#include "stream_queues.hpp"

namespace {
using fake_cuda::get_env;

// The only context. A thread that uses the GPU must have made it current.
int the_context = 0;
thread_local CUcontext current = nullptr;
std::atomic<int> stream_queries{0};
std::atomic<int> queries_in_capture{0};

// Guards the variables below: ranks may be threads of one process. They are never destroyed: a job may be a
// static object, and memory that a failed reducer leaves is no leak.
std::mutex driver;
auto& event_log = *new std::string;
auto& numbers = *new std::map<void*, int>;
auto& recorded = *new std::map<void*, int>;
int records = 0;
int live = 0;
auto& shared_bytes_allowed = *new std::map<CUfunction, unsigned>;
int created = 0;

// A stream's or event's number. The caller holds `driver`.
std::string handle_name(void* handle) { return handle == nullptr ? "0" : std::to_string(numbers[handle]); }

std::atomic<int> urgent_streams = 0;

template <typename Handle>
CUresult make(Handle* handle) {
  if (current == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  std::lock_guard const lock(driver);
  *handle = reinterpret_cast<Handle>(new int);
  numbers[*handle] = ++created;
  ++live;
  return CUDA_SUCCESS;
}

CUresult destroy(void* handle) {
  std::lock_guard const lock(driver);
  --live;
  numbers.erase(handle);
  recorded.erase(handle);
  stream_queues::destroy(handle);
  delete static_cast<int*>(handle);
  return CUDA_SUCCESS;
}

[[noreturn]] void hang() {
  for (;;) std::this_thread::sleep_for(std::chrono::hours{1});
}

// As the exit handlers of a real driver may.
[[gnu::destructor]] void wait_at_end() {
  if (get_env("FAKE_CUDA") == "hang") hang();
}
// Every later wait returns the error of a kernel.
CUresult wait_result() {
  return get_env("FAKE_CUDA") == "stream_error" ? CUDA_ERROR_ILLEGAL_ADDRESS : CUDA_SUCCESS;
}

// The caller holds `driver`.
void write(const std::string& line) { event_log += line + "; "; }
}  // namespace

namespace fake_cuda {

std::string get_env(const char* name) {
  const char* const value = std::getenv(name);
  return value != nullptr ? value : "";
}

bool has_context() { return current != nullptr; }

void log_enqueued(const std::string& what, CUstream stream) {
  std::lock_guard const lock(driver);
  write(what + " on " + handle_name(stream));
}

void log_host_wait(bool has, const char* call) {
  if (!has) return;
  std::lock_guard const lock(driver);
  write(std::string("the host waits in ") + call);
}

}  // namespace fake_cuda

using fake_cuda::log_host_wait;

extern "C" {

CUresult cuInit(unsigned) {
  if (get_env("FAKE_CUDA") == "hang") hang();
  return get_env("FAKE_CUDA") == "no_device" ? CUDA_ERROR_NO_DEVICE : CUDA_SUCCESS;
}

CUresult cuGetErrorString(CUresult error, const char** text) {
  *text = error == CUDA_ERROR_NO_DEVICE           ? "no CUDA-capable device is detected"
          : error == CUDA_ERROR_NO_BINARY_FOR_GPU ? "no kernel image is available for execution on the device"
                                                  : "an illegal memory access was encountered";
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetCount(int* count) {
  *count = get_env("FAKE_CUDA") == "none_visible" ? 0 : 1;
  return CUDA_SUCCESS;
}

CUresult cuDeviceGet(CUdevice* device, int ordinal) {
  *device = ordinal;
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetPCIBusId(char* text, int length, CUdevice) {
  auto address = get_env("FAKE_CUDA_PCI");
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
  std::strncpy(text, "fake GPU", static_cast<std::size_t>(length));
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetAttribute(int* value, CUdevice_attribute attribute, CUdevice) {
  if (attribute != CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR) return CUDA_ERROR_INVALID_VALUE;
  *value = get_env("FAKE_CUDA") == "old" ? 7 : 9;
  return CUDA_SUCCESS;
}

/// For the fake NCCL: stream_queues::enqueue_polled() with `data`.
bool fake_cuda_enqueue_polled(CUstream stream, bool (*poll)(void* data), void* data) {
  return stream_queues::enqueue_polled(stream, [=] { return poll(data); });
}

/// For the fake NCCL: waits for this thread's work on all streams.
void fake_cuda_finish_all() { stream_queues::finish_all(); }

CUresult cuLaunchHostFunc(CUstream stream, CUhostFn work, void* data) {
  if (current == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  stream_queues::enqueue(stream, [=] { work(data); });
  return CUDA_SUCCESS;
}

CUresult cuStreamSynchronize(CUstream stream) {
  if (current == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  if (get_env("FAKE_CUDA") == "stream_busy") hang();
  log_host_wait(stream_queues::finish_stream(stream), "cuStreamSynchronize");
  return wait_result();
}

CUresult cuCtxSetCurrent(CUcontext context) {
  current = context;
  return CUDA_SUCCESS;
}

int fake_cuda_stream_queries() { return stream_queries; }

CUresult cuStreamQuery(CUstream stream) {
  ++stream_queries;
  if (current == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  if (wait_result() != CUDA_SUCCESS) return wait_result();
  if (!stream_queues::query_stream(stream)) {
    log_host_wait(true, "cuStreamQuery");
    return CUDA_ERROR_NOT_READY;
  }
  return get_env("FAKE_CUDA") == "stream_busy" ? CUDA_ERROR_NOT_READY : CUDA_SUCCESS;
}

/// Queries of events of a stream that is being captured; with the real driver each ends the capture.
int fake_cuda_asked_in_capture() { return queries_in_capture; }

CUresult cuEventQuery(CUevent event) {
  if (current == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  if (get_env("FAKE_CUDA") == "capturing") {
    ++queries_in_capture;
    return CUDA_ERROR_CAPTURED_EVENT;
  }
  if (wait_result() != CUDA_SUCCESS) return wait_result();
  if (!stream_queues::query_event(event)) return CUDA_ERROR_NOT_READY;
  return get_env("FAKE_CUDA") == "stream_busy" ? CUDA_ERROR_NOT_READY : CUDA_SUCCESS;
}

CUresult cuStreamIsCapturing(CUstream, CUstreamCaptureStatus* status) {
  *status =
      get_env("FAKE_CUDA") == "capturing" ? CU_STREAM_CAPTURE_STATUS_ACTIVE : CU_STREAM_CAPTURE_STATUS_NONE;
  return CUDA_SUCCESS;
}

CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode* mode) {
  *mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
  return CUDA_SUCCESS;
}

/// The log since fake_cuda_forget(); valid until the next call.
const char* fake_cuda_log() {
  static std::string copy;
  std::lock_guard const lock(driver);
  copy = event_log;
  return copy.c_str();
}
void fake_cuda_forget() {
  std::lock_guard const lock(driver);
  event_log.clear();
}
int fake_cuda_live() {
  std::lock_guard const lock(driver);
  return live;
}

CUresult cuStreamCreate(CUstream* stream, unsigned flags) {
  if (get_env("FAKE_CUDA") == "no_stream") return CUDA_ERROR_ILLEGAL_ADDRESS;
  return flags == CU_STREAM_NON_BLOCKING ? make(stream) : CUDA_ERROR_INVALID_VALUE;
}
constexpr int greatest_priority = -5;
CUresult cuCtxGetStreamPriorityRange(int* least, int* greatest) {
  *least = 0, *greatest = greatest_priority;
  return current == nullptr ? CUDA_ERROR_INVALID_CONTEXT : CUDA_SUCCESS;
}
CUresult cuStreamCreateWithPriority(CUstream* stream, unsigned flags, int priority) {
  auto const result = cuStreamCreate(stream, flags);
  if (result == CUDA_SUCCESS && priority == greatest_priority) ++urgent_streams;
  return result;
}
// How many streams with the greatest priority were created.
int fake_cuda_urgent_streams() { return urgent_streams; }
CUresult cuStreamDestroy(CUstream stream) { return destroy(stream); }
CUresult cuEventCreate(CUevent* event, unsigned) { return make(event); }
CUresult cuEventDestroy(CUevent event) { return destroy(event); }

CUresult cuEventRecord(CUevent event, CUstream stream) {
  if (current == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  stream_queues::record(event, stream);
  std::lock_guard const lock(driver);
  recorded[event] = ++records;
  write("record " + handle_name(event) + " on " + handle_name(stream));
  return CUDA_SUCCESS;
}

CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned) {
  stream_queues::wait_event(stream, event);
  std::lock_guard const lock(driver);
  write(handle_name(stream) + " waits for " + handle_name(event));
  return CUDA_SUCCESS;
}

/// Makes later events so much later.
void fake_cuda_spend(int milliseconds) {
  std::lock_guard const lock(driver);
  records += milliseconds;
}

#undef cuEventElapsedTime
CUresult cuEventElapsedTime(float* milliseconds, CUevent begin, CUevent end) {
  std::lock_guard const lock(driver);
  if (!recorded.contains(begin) || !recorded.contains(end)) return CUDA_ERROR_INVALID_HANDLE;
  if (get_env("FAKE_CUDA") == "stream_busy" || !stream_queues::event_is_done(begin) ||
      !stream_queues::event_is_done(end))
    return CUDA_ERROR_NOT_READY;
  *milliseconds = static_cast<float>(recorded[end] - recorded[begin]);
  return CUDA_SUCCESS;
}

CUresult cuModuleLoadData(CUmodule* module, const void* image) {
  if (current == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  if (get_env("FAKE_CUDA") == "no_kernels") return CUDA_ERROR_NO_BINARY_FOR_GPU;
  // The magic number of nvcc -fatbin's output.
  if (std::memcmp(image, "\x50\xed\x55\xba", 4) != 0) return CUDA_ERROR_INVALID_IMAGE;
  return make(module);
}

CUresult cuModuleUnload(CUmodule module) { return destroy(module); }

CUresult cuModuleGetFunction(CUfunction* function, CUmodule, const char* name) {
  auto* const kernel = const_cast<FakeKernel*>(find_fake_kernel(name));
  *function = reinterpret_cast<CUfunction>(kernel);
  return kernel != nullptr ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

// The sizes are those of the fake kernel's own signature. Offsets are not modelled.
CUresult cuFuncGetParamInfo(CUfunction function, std::size_t index, std::size_t* offset, std::size_t* bytes) {
  auto const& sizes = reinterpret_cast<const FakeKernel*>(function)->parameter_bytes;
  if (index >= sizes.size()) return CUDA_ERROR_INVALID_VALUE;
  *offset = 0;
  *bytes = get_env("FAKE_CUDA") == "other_kernels" ? 4 : sizes[index];
  return CUDA_SUCCESS;
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
  stream_queues::enqueue(stream,
                         kernel->prepare({{blocks, blocks_y, blocks_z}, threads, shared_bytes}, arguments));
  std::lock_guard const lock(driver);
  write(std::string(kernel->name) + " on " + handle_name(stream));
  return CUDA_SUCCESS;
}

}  // extern "C"
