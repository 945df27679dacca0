// SPDX-License-Identifier: Apache-2.0
#include "communicator/nccl/nccl_stream.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <utility>
#include <vector>

#include "cuda/kernel_checks.hpp"
#include "cuda/kernel_parameters.hpp"
#include "failure/background_errors.hpp"
#include "log.hpp"

namespace muster::detail {
namespace {

class NcclStream : public CommStream {
 public:
  NcclStream(std::shared_ptr<NcclState> state, std::shared_ptr<NcclComm> comm)
      : state_(std::move(state)), comm_(std::move(comm)) {
    comm_->make_context_current();
    // Its kernels wait for other ranks: they start before what computes beside them.
    int least = 0;
    int greatest = 0;
    require(cuda().get_stream_priorities(&least, &greatest), "no stream priorities");
    require(cuda().stream_create_with_priority(&stream_, CU_STREAM_NON_BLOCKING, greatest), "no stream");
    require(cuda().event_create(&order_event_, CU_EVENT_DISABLE_TIMING), "no event");
  }

  // If the work in flight may be stuck, nothing is freed, because freeing would wait for it; the process is
  // about to end then.
  ~NcclStream() override {
    if (std::uncaught_exceptions() > unwinding_) return;
    control::BackgroundErrors const dropped;
    try {
      comm_->synchronize(stream_);
    } catch (const Error&) {
      return;
    }
    for (void* const handle : registrations_) comm_->deregister_memory(handle);
    for (void* const window : windows_) comm_->deregister_window(window);
    for (const auto& [memory, from_nccl] : memory_) {
      if (from_nccl) {
        state_->nccl.mem_free(memory);
      } else {
        cuda().mem_free(reinterpret_cast<CUdeviceptr>(memory));
      }
    }
    if (module_ != nullptr) cuda().module_unload(module_);
    for (CUevent const event : events_) cuda().event_destroy(event);
    cuda().event_destroy(order_event_);
    cuda().stream_destroy(stream_);
  }

  Stream stream() const noexcept override { return stream_; }

  // One event is enough: cuStreamWaitEvent waits for the event's last record before the call.
  void wait_for(Stream other) override { order_streams(other, stream_); }
  void block(Stream other) override { order_streams(stream_, other); }

  void copy(void* to, const void* from, std::size_t bytes) override {
    require(cuda().memcpy_on_device(reinterpret_cast<CUdeviceptr>(to), reinterpret_cast<CUdeviceptr>(from),
                                    bytes, stream_),
            "a copy");
  }

  // Gets the functions now: with lazy loading CUDA loads a kernel when its function is first requested, which
  // may wait for all work on the GPU.
  void load_kernels(const void* module, std::span<const char* const> names) override {
    comm_->make_context_current();
    require(cuda().module_load_data(&module_, module),
            "the reducer's kernels cannot be loaded; was Muster built for this GPU "
            "(MUSTER_CUDA_ARCHITECTURES) and with a CUDA that its driver knows?");
    for (const char* const name : names) {
      CUfunction kernel = nullptr;
      require(cuda().module_get_function(&kernel, module_, name), name);
      kernels_.push_back({name, kernel, KernelParameters(cuda(), kernel)});
    }
  }

  void launch(std::size_t kernel, std::size_t elements, void** arguments,
              std::span<const std::size_t> argument_bytes) override {
    auto const& [name, function, parameters] = kernels_.at(kernel);
    if (auto const difference = parameters.difference(argument_bytes); !difference.empty())
      comm_->fail_device(fmt::format("the kernel {}: {}", name, difference));
    constexpr unsigned threads = 256;
    constexpr std::size_t max_blocks = 4096;  // more than a GPU can run at a time
    auto const blocks = static_cast<unsigned>(std::min((elements + threads - 1) / threads, max_blocks));
    require(cuda().launch_kernel(function, blocks, 1, 1, threads, 1, 1, 0, stream_, arguments, nullptr),
            name);
    if (checks_ && !comm_->is_captured(stream_))
      comm_->synchronize(stream_, comm_->operation_deadline(), name);
  }

  void* allocate(std::size_t bytes) override {
    void* const memory = allocate_unregistered(bytes).first;
    register_memory(memory, bytes);
    return memory;
  }

  void* allocate_symmetric(std::size_t bytes, const std::function<bool(bool)>& all_agree) override {
    auto const [memory, from_nccl] = allocate_unregistered(bytes);
    void* const window = all_agree(from_nccl && comm_->has_windows())
                             ? comm_->register_window(memory, bytes, stream_)
                             : nullptr;
    if (window != nullptr) {
      windows_.push_back(window);
    } else {
      register_memory(memory, bytes);
    }
    return memory;
  }

  void register_memory(void* memory, std::size_t bytes) override {
    if (void* const handle = comm_->register_memory(memory, bytes)) registrations_.push_back(handle);
  }

  void record(std::size_t event, Stream on) override {
    comm_->make_context_current();
    while (events_.size() <= event) {
      CUevent created = nullptr;
      require(cuda().event_create(&created, CU_EVENT_DEFAULT), "no event");
      events_.push_back(created);
    }
    require(cuda().event_record(events_[event], on), "an event");
  }

  std::optional<double> elapsed(std::size_t begin, std::size_t end) override {
    float milliseconds = 0;
    if (cuda().event_elapsed_time(&milliseconds, events_.at(begin), events_.at(end)) != CUDA_SUCCESS)
      return std::nullopt;
    return static_cast<double>(milliseconds) / 1000;
  }

 private:
  const CudaLibrary& cuda() const { return state_->cuda; }
  // Also returns whether NCCL has allocated it.
  std::pair<void*, bool> allocate_unregistered(std::size_t bytes) {
    comm_->make_context_current();
    void* memory = nullptr;
    bool const from_nccl =
        state_->nccl.mem_alloc != nullptr && state_->nccl.mem_alloc(&memory, bytes) == ncclSuccess;
    if (!from_nccl) {
      CUdeviceptr plain = 0;
      require(cuda().mem_alloc(&plain, bytes), "no GPU memory for gradients");
      memory = reinterpret_cast<void*>(plain);
    }
    memory_.emplace_back(memory, from_nccl);
    require(cuda().memset_bytes(reinterpret_cast<CUdeviceptr>(memory), 0, bytes, stream_), "clearing memory");
    log::debug("reducer: {} bytes from {}", bytes, from_nccl ? "ncclMemAlloc" : "cuMemAlloc");
    return memory_.back();
  }
  void require(CUresult result, const char* what) { comm_->require_cuda(result, what); }
  void order_streams(Stream first, Stream second) {
    comm_->make_context_current();
    require(cuda().event_record(order_event_, first), "an event");
    require(cuda().stream_wait_event(second, order_event_, 0), "waiting for an event");
  }

  std::shared_ptr<NcclState> state_;
  std::shared_ptr<NcclComm> comm_;
  bool checks_ = wants_kernel_checks();
  int unwinding_ = std::uncaught_exceptions();
  CUstream stream_ = nullptr;
  CUevent order_event_ = nullptr;
  std::vector<CUevent> events_;
  CUmodule module_ = nullptr;
  struct Kernel {
    const char* name;
    CUfunction function;
    KernelParameters parameters;
  };
  std::vector<Kernel> kernels_;
  std::vector<std::pair<void*, bool>> memory_;
  std::vector<void*> registrations_;
  std::vector<void*> windows_;
};

}  // namespace

std::shared_ptr<CommStream> make_nccl_stream(std::shared_ptr<NcclState> state,
                                             std::shared_ptr<NcclComm> comm) {
  return std::make_shared<NcclStream>(std::move(state), std::move(comm));
}

}  // namespace muster::detail
