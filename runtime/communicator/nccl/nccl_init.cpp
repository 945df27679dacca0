// SPDX-License-Identifier: Apache-2.0
// How NCCL's communicators come to be: new, as a part of another, and as what is left of another.
#include <fmt/format.h>

#include <atomic>
#include <utility>

#include "communicator/nccl/nccl_communicator.hpp"
#include "communicator/nccl/nccl_ids.hpp"
#include "log.hpp"
#include "telemetry/phase.hpp"

namespace muster::detail {
namespace {

ncclConfig_t non_blocking() {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  return config;
}

// NCCL's thread may be writing there.
ncclComm_t look_at(ncclComm_t& slot) { return std::atomic_ref<ncclComm_t>(slot).load(); }

}  // namespace

NcclCommunicator::NcclCommunicator(std::shared_ptr<NcclState> state, CommunicatorGroup group)
    : GroupCollectives(std::move(group)), state_(std::move(state)) {
  std::lock_guard const lock(state_->mutex);
  state_->all.push_back(this);
}

std::shared_ptr<NcclCommunicator> NcclCommunicator::init(std::shared_ptr<NcclState> state, CommunicatorGroup group, const Deadline& deadline) {
  std::shared_ptr<NcclCommunicator> made(new NcclCommunicator(std::move(state), std::move(group)));
  auto& self = *made;
  std::lock_guard const lock(self.in_use_);
  self.group_.enter_set_up("NCCL initialisation");
  auto const inside = self.group_.inside();
  self.make_context_current();
  const auto& library = self.state_->nccl;
  auto& timings = *self.group_.job().timings;
  std::vector<ncclUniqueId> ids;
  {
    observe::Phase const phase("NCCL id", timings.nccl_id);
    ids = exchange_ids(library, self.group_, deadline);
  }
  {
    observe::Phase const phase("NCCL initialisation", timings.nccl_init);
    ncclConfig_t config = non_blocking();
    auto const slot = self.new_slot();
    auto const result =
        ids.size() == 1
            ? library.comm_init_rank_config(slot.get(), self.size(), ids.front(), self.rank(), &config)
            : library.comm_init_rank_scalable(slot.get(), self.size(), self.rank(),
                                              static_cast<int>(ids.size()), ids.data(), &config);
    self.comm_ = look_at(*slot);
    self.wait_until_ready(result, deadline);
  }
  observe::Phase const phase("NCCL's first collective", timings.first_collective);
  self.first_collective(deadline);
  return made;
}

std::shared_ptr<NcclCommunicator> NcclCommunicator::shrink(NcclCommunicator& old, CommunicatorGroup group, const std::vector<int>& lost,
                                   const Deadline& deadline) {
  std::shared_ptr<NcclCommunicator> made(new NcclCommunicator(old.state_, std::move(group)));
  auto& self = *made;
  std::scoped_lock const lock(old.in_use_, self.in_use_);
  self.group_.enter_set_up("NCCL shrinking");
  self.make_context_current();
  ncclConfig_t config = non_blocking();
  auto excluded = lost;
  auto const slot = self.new_slot();
  auto const result = self.state_->nccl.comm_shrink(
      old.comm_, excluded.data(), static_cast<int>(excluded.size()), slot.get(), &config, nccl_shrink_abort);
  // As of a split, only the parent shows how far it is.
  self.accept(old.comm_, result == ncclSuccess ? ncclInProgress : result, deadline);
  self.comm_ = look_at(*slot);
  self.wait_until_ready(ncclInProgress, deadline);
  log::debug("nccl: '{}' goes on with {} ranks", self.group_.name(), self.size());
  return made;
}

std::shared_ptr<CommunicatorBackend> NcclCommunicator::split(int color, int key) {
  std::lock_guard const lock(in_use_);
  require_open();
  CommunicatorGroup part = group_.split(color, key);
  auto const inside = group_.inside();
  make_context_current();
  std::shared_ptr<NcclCommunicator> made(new NcclCommunicator(state_, std::move(part)));
  std::lock_guard const of_made(made->in_use_);
  ncclConfig_t config = non_blocking();
  Deadline const deadline(group_.timeout());
  auto const slot = new_slot();
  ncclResult_t const result = state_->nccl.comm_split(comm_, color, key, slot.get(), &config);
  // Whatever it says, the split is under way, which only the parent shows; the slot is filled at its end.
  accept(result == ncclSuccess ? ncclInProgress : result, deadline);
  made->comm_ = look_at(*slot);
  made->wait_until_ready(ncclInProgress, deadline);
  made->first_collective(deadline);
  return made;
}

std::shared_ptr<ncclComm_t> NcclCommunicator::new_slot() {
  return state_->slots.emplace_back(std::make_shared<ncclComm_t>(nullptr));
}

void NcclCommunicator::make_context_current() {
  require_cuda(state_->cuda.context_set_current(state_->context), "the GPU's context");
}

void NcclCommunicator::require_cuda(CUresult result, const char* what) {
  if (result != CUDA_SUCCESS)
    group_.broke(ErrorCode::device, fmt::format("{}: CUDA says: {}", what, state_->cuda.reason(result)));
}

// `result`: of the call that made the communicator.
void NcclCommunicator::wait_until_ready(ncclResult_t result, const Deadline& deadline) {
  if (comm_ == nullptr)
    give_up(result == ncclSuccess || result == ncclInProgress ? ncclInternalError : result);
  accept(result, deadline);
  allocate_token();
}

void NcclCommunicator::allocate_token() {
  require_cuda(state_->cuda.mem_alloc(&token_, sizeof(float)), "no GPU memory for the barrier");
}

// What NCCL leaves for the first operation happens now: its kernels are loaded, its proxy thread is started,
// and what was not connected during the initialisation is.
void NcclCommunicator::first_collective(const Deadline& deadline) {
  if (size() == 1) return;
  group_.enter_set_up("first all_reduce");
  const auto& cuda = state_->cuda;
  CUstream stream = nullptr;
  // Also after a failure, when NCCL may still be working on it: CUDA frees it later then.
  struct Guard {
    ~Guard() {
      if (stream != nullptr) cuda.stream_destroy(stream);
    }
    const CudaLibrary& cuda;
    CUstream& stream;
  } const guard{cuda, stream};
  CUresult const made = cuda.stream_create(&stream, CU_STREAM_NON_BLOCKING);
  if (made != CUDA_SUCCESS) group_.broke(ErrorCode::device, "no CUDA stream: " + cuda.reason(made));
  auto* const token = reinterpret_cast<void*>(token_);
  accept(state_->nccl.all_reduce(token, token, 1, ncclFloat32, ncclMax, comm_, stream), deadline);
  synchronize(stream, deadline);
}

}  // namespace muster::detail
