// SPDX-License-Identifier: Apache-2.0
// Creation of NCCL communicators: new ones, by a split, and by shrinking.
#include <fmt/format.h>

#include <atomic>
#include <utility>

#include "communicator/nccl/nccl_communicator.hpp"
#include "communicator/nccl/nccl_ids.hpp"
#include "log.hpp"
#include "telemetry/phase.hpp"

namespace muster::detail {
namespace {

ncclConfig_t nonblocking_config() {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  return config;
}

// Atomic, because NCCL's thread may be writing to the slot.
ncclComm_t load_slot(ncclComm_t& slot) { return std::atomic_ref<ncclComm_t>(slot).load(); }

}  // namespace

NcclCommunicator::NcclCommunicator(std::shared_ptr<NcclState> state, CommunicatorGroup group)
    : CommunicatorBase(std::move(group)), state_(std::move(state)) {
  std::lock_guard const lock(state_->mutex);
  state_->all.push_back(this);
}

std::shared_ptr<NcclCommunicator> NcclCommunicator::init(std::shared_ptr<NcclState> state,
                                                         CommunicatorGroup group, const Deadline& deadline) {
  std::shared_ptr<NcclCommunicator> made(new NcclCommunicator(std::move(state), std::move(group)));
  auto& self = *made;
  std::lock_guard const lock(self.call_mutex_);
  self.group_.begin_setup("NCCL initialisation");
  auto const wait_scope = self.group_.wait_scope();
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
    ncclConfig_t config = nonblocking_config();
    auto const slot = self.new_slot();
    auto const result =
        ids.size() == 1
            ? library.comm_init_rank_config(slot.get(), self.size(), ids.front(), self.rank(), &config)
            : library.comm_init_rank_scalable(slot.get(), self.size(), self.rank(),
                                              static_cast<int>(ids.size()), ids.data(), &config);
    self.comm_ = load_slot(*slot);
    self.wait_until_ready(result, deadline);
  }
  observe::Phase const phase("NCCL's first collective", timings.first_collective);
  self.first_collective(deadline);
  return made;
}

std::shared_ptr<NcclCommunicator> NcclCommunicator::shrink(NcclCommunicator& old, CommunicatorGroup group,
                                                           const std::vector<int>& lost,
                                                           const Deadline& deadline) {
  std::shared_ptr<NcclCommunicator> made(new NcclCommunicator(old.state_, std::move(group)));
  auto& self = *made;
  std::scoped_lock const lock(old.call_mutex_, self.call_mutex_);
  self.group_.begin_setup("NCCL shrinking");
  self.make_context_current();
  ncclConfig_t config = nonblocking_config();
  auto excluded = lost;
  auto const slot = self.new_slot();
  auto const result = self.state_->nccl.comm_shrink(
      old.comm_, excluded.data(), static_cast<int>(excluded.size()), slot.get(), &config, nccl_shrink_abort);
  // As in split(), only the parent reports the progress.
  self.wait_while_in_progress(old.comm_, result == ncclSuccess ? ncclInProgress : result, deadline);
  self.comm_ = load_slot(*slot);
  self.wait_until_ready(ncclInProgress, deadline);
  log::debug("nccl: '{}' goes on with {} ranks", self.group_.name(), self.size());
  return made;
}

std::shared_ptr<CommunicatorBackend> NcclCommunicator::split(int color, int key) {
  std::lock_guard const lock(call_mutex_);
  require_open();
  CommunicatorGroup part = group_.split(color, key);
  auto const wait_scope = group_.wait_scope();
  make_context_current();
  std::shared_ptr<NcclCommunicator> made(new NcclCommunicator(state_, std::move(part)));
  std::lock_guard const made_lock(made->call_mutex_);
  ncclConfig_t config = nonblocking_config();
  Deadline const deadline(group_.timeout());
  auto const slot = new_slot();
  ncclResult_t const result = state_->nccl.comm_split(comm_, color, key, slot.get(), &config);
  // Even after ncclSuccess the split is still in progress, which only the parent reports. NCCL fills the slot
  // at its end.
  wait_while_in_progress(result == ncclSuccess ? ncclInProgress : result, deadline);
  made->comm_ = load_slot(*slot);
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
    group_.fail(ErrorCode::device, fmt::format("{}: CUDA says: {}", what, state_->cuda.reason(result)));
}

// `result`: of the call that created the communicator.
void NcclCommunicator::wait_until_ready(ncclResult_t result, const Deadline& deadline) {
  if (comm_ == nullptr)
    fail_nccl(result == ncclSuccess || result == ncclInProgress ? ncclInternalError : result);
  wait_while_in_progress(result, deadline);
  allocate_token();
}

void NcclCommunicator::allocate_token() {
  require_cuda(state_->cuda.mem_alloc(&token_, sizeof(float)), "no GPU memory for the barrier");
}

// Does the work that NCCL defers to the first operation: it loads its kernels, starts its proxy thread and
// makes the connections that it did not make during initialisation.
void NcclCommunicator::first_collective(const Deadline& deadline) {
  if (size() == 1) return;
  group_.begin_setup("first all_reduce");
  const auto& cuda = state_->cuda;
  CUstream stream = nullptr;
  // Destroys the stream even after a failure, when NCCL may still use it: CUDA then frees it later.
  struct Guard {
    ~Guard() {
      if (stream != nullptr) cuda.stream_destroy(stream);
    }
    const CudaLibrary& cuda;
    CUstream& stream;
  } const guard{cuda, stream};
  CUresult const made = cuda.stream_create(&stream, CU_STREAM_NON_BLOCKING);
  if (made != CUDA_SUCCESS) group_.fail(ErrorCode::device, "no CUDA stream: " + cuda.reason(made));
  auto* const token = reinterpret_cast<void*>(token_);
  wait_while_in_progress(state_->nccl.all_reduce(token, token, 1, ncclFloat32, ncclMax, comm_, stream),
                         deadline);
  synchronize(stream, deadline);
}

}  // namespace muster::detail
