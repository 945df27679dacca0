// SPDX-License-Identifier: Apache-2.0
#include "communicator/nccl/gpu.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>
#include <exception>
#include <thread>

#include "communicator/nccl/cuda_device.hpp"
#include "communicator/nccl/nccl_communicator.hpp"
#include "communicator/nccl/nccl_runtime_connect.hpp"
#include "communicator/nccl/nccl_watchdog.hpp"

namespace muster::detail {
namespace {

// How long the process may take to end once the driver holds one of its threads.
constexpr std::chrono::seconds end_time{2};

class CudaGpu : public Gpu {
 public:
  CudaGpu(std::shared_ptr<NcclState> state, CudaDevice device)
      : state_(std::move(state)), device_(std::move(device)) {}

  const std::string& pci_address() const noexcept override { return device_.pci_address; }
  const std::string& uuid() const noexcept override { return device_.uuid; }
  const std::string& nccl_version() const noexcept override { return state_->nccl.version; }

  std::shared_ptr<CommunicatorBackend> world(CommunicatorGroup group, const Deadline& deadline) override {
    if (!state_->watch && group.size() > 1 && group.job().plane)
      state_->watch = std::make_unique<NcclWatchdog>(*state_, NcclWatchdog::pace(group.job()));
    auto made = NcclCommunicator::init(state_, std::move(group), deadline);
    if (state_->survives) world_ = made;
    return made;
  }

  void survive() noexcept override { state_->survives = true; }

  bool can_shrink() const noexcept override {
    return world_ && world_->is_open() && state_->nccl.comm_shrink != nullptr;
  }

  std::shared_ptr<CommunicatorBackend> shrink_world(CommunicatorGroup group, const std::vector<int>& lost,
                                            const Deadline& deadline) override {
    auto const old = state_->living();
    auto const old_world = std::move(world_);  // `old` points to it
    try {
      world_ = NcclCommunicator::shrink(*old_world, std::move(group), lost, deadline);
    } catch (const Error&) {
      // Its ranks have their old numbers, which the next loss is not told in: the next world is a new one.
      state_->abort(old);
      throw;
    }
    state_->abort(old);
    return world_;
  }

  void finish(const Deadline& deadline) override {
    state_->watch.reset();
    state_->finish_all(deadline);
    state_->open = false;
  }

  void end_all() noexcept override {
    state_->abort(state_->living());
    world_.reset();
  }

  void abandon() noexcept override {
    state_->watch.reset();
    state_->open = false;
    state_->abort(state_->living());
  }

 private:
  std::shared_ptr<NcclState> state_;
  std::shared_ptr<NcclCommunicator> world_;  // when the job survives losses
  CudaDevice device_;
};

void require_success(const CudaLibrary& cuda, CUresult result) {
  if (result != CUDA_SUCCESS) throw Error(ErrorCode::device, "CUDA says: " + cuda.reason(result));
}

// The driver's own handlers at the end of the process may wait for the thread that it holds: this one is
// called before them.
void end_without_driver() {
  on_exit(
      [](int status, void*) {
        std::thread([status] {
          std::this_thread::sleep_for(end_time);
          ::_exit(status);
        }).detach();
      },
      nullptr);
}

// The primary context is the one that the program's CUDA runtime and NCCL use too. The driver has no
// deadlines: it is waited for from here.
CudaDevice start_cuda(const std::shared_ptr<NcclState>& state, const std::string& placed, int local_rank,
                      const Deadline& deadline) {
  struct Started {
    CudaDevice device;
    std::exception_ptr wrong;
  };
  auto const started = std::make_shared<Started>();
  auto const done = run_bounded(
      [=] {
        try {
          started->device = find_device(state->cuda, placed, local_rank);
          require_success(state->cuda,
                          state->cuda.primary_context_retain(&state->context, started->device.handle));
        } catch (...) {
          started->wrong = std::current_exception();
        }
        return 0;
      },
      deadline);
  if (!done) {
    end_without_driver();
    throw Error(ErrorCode::device, fmt::format("it did not answer within {}: see nvidia-smi and dmesg there",
                                               text_of(deadline.length())));
  }
  if (started->wrong) std::rethrow_exception(started->wrong);
  require_success(state->cuda, state->cuda.context_set_current(state->context));
  return started->device;
}

}  // namespace

std::shared_ptr<Gpu> open_gpu(const std::string& placed, int local_rank, const std::string& rank,
                              const Deadline& deadline) {
  try {
    connect_at_start();
    auto state = std::make_shared<NcclState>();
    auto device = start_cuda(state, placed, local_rank, deadline);
    return std::make_shared<CudaGpu>(std::move(state), std::move(device));
  } catch (const Error& error) {
    auto const what = placed.empty() ? "a GPU was asked for" : "its GPU was placed";
    throw Error(ErrorCode::device,
                fmt::format("{}: {} but cannot be used: {}; with --device=cpu the job runs without it", rank,
                            what, error.what()));
  }
}

}  // namespace muster::detail
