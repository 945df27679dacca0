// SPDX-License-Identifier: Apache-2.0
#include "communicator/nccl/gpu.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>
#include <exception>
#include <thread>

#include "communicator/nccl/nccl_communicator.hpp"
#include "communicator/nccl/nccl_runtime_connect.hpp"
#include "communicator/nccl/nccl_watchdog.hpp"
#include "cuda/cuda_device.hpp"

namespace muster::detail {
namespace {

// The time that the process may take to exit when the driver blocks one of its threads.
constexpr std::chrono::seconds exit_grace{2};

class CudaGpu : public Gpu {
 public:
  CudaGpu(std::shared_ptr<NcclState> state, CudaDevice device)
      : state_(std::move(state)), device_(std::move(device)) {}

  const std::string& pci_address() const noexcept override { return device_.pci_address; }
  const std::string& uuid() const noexcept override { return device_.uuid; }
  const std::string& nccl_version() const noexcept override { return state_->nccl.version; }

  std::shared_ptr<CommunicatorBackend> world(CommunicatorGroup group, const Deadline& deadline) override {
    if (!state_->watchdog && group.size() > 1 && group.job().plane)
      state_->watchdog = std::make_unique<NcclWatchdog>(*state_, NcclWatchdog::poll_interval(group.job()));
    return NcclCommunicator::init(state_, std::move(group), deadline);
  }

  void finalize(const Deadline& deadline) override {
    state_->watchdog.reset();
    state_->finalize_all(deadline);
    state_->open = false;
  }

  void abort_all() noexcept override { state_->abort(state_->open_communicators()); }

  void abort() noexcept override {
    state_->watchdog.reset();
    state_->open = false;
    state_->abort(state_->open_communicators());
  }

 private:
  std::shared_ptr<NcclState> state_;
  CudaDevice device_;
};

void require_success(const CudaLibrary& cuda, CUresult result) {
  if (result != CUDA_SUCCESS) throw Error(ErrorCode::device, "CUDA says: " + cuda.reason(result));
}

// The driver's exit handlers may wait for the thread that the driver blocks. This handler runs before them.
void exit_without_driver() {
  on_exit(
      [](int status, void*) {
        std::thread([status] {
          std::this_thread::sleep_for(exit_grace);
          ::_exit(status);
        }).detach();
      },
      nullptr);
}

// Retains the primary context, which the program's CUDA runtime and NCCL use too. The driver's calls have no
// deadline, so they run on a second thread.
CudaDevice start_cuda(const std::shared_ptr<NcclState>& state, const std::string& placed_gpu, int local_rank,
                      const Deadline& deadline) {
  struct Started {
    CudaDevice device;
    std::exception_ptr failure;
  };
  auto const started = std::make_shared<Started>();
  auto const done = run_bounded(
      [=] {
        try {
          started->device = find_device(state->cuda, placed_gpu, local_rank);
          require_success(state->cuda,
                          state->cuda.primary_context_retain(&state->context, started->device.handle));
        } catch (...) {
          started->failure = std::current_exception();
        }
        return 0;
      },
      deadline);
  if (!done) {
    exit_without_driver();
    throw Error(ErrorCode::device, fmt::format("it did not answer within {}: see nvidia-smi and dmesg there",
                                               format_duration(deadline.length())));
  }
  if (started->failure) std::rethrow_exception(started->failure);
  require_success(state->cuda, state->cuda.context_set_current(state->context));
  return started->device;
}

}  // namespace

std::shared_ptr<Gpu> open_gpu(const std::string& placed_gpu, int local_rank, const std::string& rank,
                              const Deadline& deadline) {
  try {
    set_eager_connect();
    auto state = std::make_shared<NcclState>();
    auto device = start_cuda(state, placed_gpu, local_rank, deadline);
    return std::make_shared<CudaGpu>(std::move(state), std::move(device));
  } catch (const Error& error) {
    auto const what = placed_gpu.empty() ? "a GPU was asked for" : "its GPU was placed";
    throw Error(ErrorCode::device,
                fmt::format("{}: {} but cannot be used: {}; with --device=cpu the job runs without it", rank,
                            what, error.what()));
  }
}

}  // namespace muster::detail
