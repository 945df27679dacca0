// SPDX-License-Identifier: Apache-2.0
#include "communicator/nccl.hpp"

#include <atomic>
#include <cstring>
#include <utility>

#include "log.hpp"

namespace muster::detail {
namespace {

ncclDataType_t nccl_type(DataType type) {
  switch (type) {
    case DataType::float32:
      return ncclFloat32;
    case DataType::float64:
      return ncclFloat64;
    case DataType::bfloat16:
      return ncclBfloat16;
    case DataType::float16:
      return ncclFloat16;
    case DataType::int8:
      return ncclInt8;
    case DataType::uint8:
      return ncclUint8;
    case DataType::int32:
      return ncclInt32;
    case DataType::uint32:
      return ncclUint32;
    case DataType::int64:
      return ncclInt64;
    case DataType::uint64:
      return ncclUint64;
  }
  return ncclNumTypes;
}

ncclRedOp_t nccl_op(Reduction op) {
  switch (op) {
    case Reduction::sum:
      return ncclSum;
    case Reduction::average:
      return ncclAvg;
    case Reduction::min:
      return ncclMin;
    case Reduction::max:
      return ncclMax;
  }
  return ncclNumOps;
}

ncclConfig_t non_blocking() {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  return config;
}

// NCCL's thread may be writing there.
ncclComm_t look_at(ncclComm_t& slot) { return std::atomic_ref<ncclComm_t>(slot).load(); }

}  // namespace

Nccl::Nccl(std::shared_ptr<NcclState> state, Group group)
    : state_(std::move(state)), group_(std::move(group)) {
  state_->all.push_back(this);
}

std::shared_ptr<Nccl> Nccl::init(std::shared_ptr<NcclState> state, Group group, const Deadline& deadline) {
  std::shared_ptr<Nccl> made(new Nccl(std::move(state), std::move(group)));
  auto& self = *made;
  self.group_.enter("NCCL initialisation");
  self.make_context_current();
  const auto& library = self.state_->nccl;
  control::Blob blob(sizeof(ncclUniqueId));
  ncclUniqueId id;
  if (self.rank() == 0) {
    ncclResult_t const result = library.get_unique_id(&id);
    if (result != ncclSuccess) self.group_.broke(Fault::device, library.reason(result, nullptr));
    std::memcpy(blob.data(), &id, sizeof id);
  }
  if (auto const& plane = self.group_.job().plane; plane && self.size() > 1) {
    blob = plane->broadcast("NCCL id of '" + self.group_.name() + "'", self.group_.members(),
                            self.group_.members().front(), blob, deadline.length());
  }
  if (blob.size() != sizeof id) self.group_.broke(Fault::system, "the NCCL id came with another length");
  std::memcpy(&id, blob.data(), sizeof id);
  ncclConfig_t config = non_blocking();
  log::debug("nccl: initialising '{}', {} ranks", self.group_.name(), self.size());
  auto const slot = self.new_slot();
  auto const result = library.comm_init_rank_config(slot.get(), self.size(), id, self.rank(), &config);
  self.comm_ = look_at(*slot);
  self.wait_until_ready(result, deadline);
  log::debug("nccl: '{}' is ready", self.group_.name());
  return made;
}

std::shared_ptr<ncclComm_t> Nccl::new_slot() {
  return state_->slots.emplace_back(std::make_shared<ncclComm_t>(nullptr));
}

void Nccl::make_context_current() {
  CUresult const result = state_->cuda.context_set_current(state_->context);
  if (result != CUDA_SUCCESS)
    group_.broke(Fault::device, "the GPU's context: " + state_->cuda.reason(result));
}

// `result`: of the call that made the communicator.
void Nccl::wait_until_ready(ncclResult_t result, const Deadline& deadline) {
  if (comm_ == nullptr)
    give_up(result == ncclSuccess || result == ncclInProgress ? ncclInternalError : result);
  accept(result, deadline);
  allocate_token();
}

void Nccl::allocate_token() {
  CUresult const result = state_->cuda.mem_alloc(&token_, sizeof(float));
  if (result != CUDA_SUCCESS)
    group_.broke(Fault::device, "no GPU memory for the barrier: " + state_->cuda.reason(result));
}

void Nccl::require_open() const {
  if (!state_->open || comm_ == nullptr)
    throw Error(Fault::usage, "the communicator was used after the job was left or has failed");
}

void Nccl::enter(const char* operation) {
  require_open();
  group_.enter(operation);
}

void Nccl::enter_message(const char* operation, int peer) {
  require_open();
  group_.enter_message(operation, peer);
}

void Nccl::all_reduce(const void* in, void* out, std::size_t count, DataType type, Reduction op,
                      Stream stream) {
  enter("all_reduce");
  accept(state_->nccl.all_reduce(in, out, count, nccl_type(type), nccl_op(op), comm_, stream));
}

void Nccl::broadcast(void* buffer, std::size_t count, DataType type, int root, Stream stream) {
  enter("broadcast");
  accept(state_->nccl.broadcast(buffer, buffer, count, nccl_type(type), root, comm_, stream));
}

void Nccl::all_gather(const void* in, void* out, std::size_t count, DataType type, Stream stream) {
  enter("all_gather");
  accept(state_->nccl.all_gather(in, out, count, nccl_type(type), comm_, stream));
}

void Nccl::reduce_scatter(const void* in, void* out, std::size_t count, DataType type, Reduction op,
                          Stream stream) {
  enter("reduce_scatter");
  accept(state_->nccl.reduce_scatter(in, out, count, nccl_type(type), nccl_op(op), comm_, stream));
}

void Nccl::send(const void* buffer, std::size_t count, DataType type, int to, Stream stream) {
  enter_message("send", to);
  accept(state_->nccl.send(buffer, count, nccl_type(type), to, comm_, stream));
}

void Nccl::recv(void* buffer, std::size_t count, DataType type, int from, Stream stream) {
  enter_message("recv", from);
  accept(state_->nccl.recv(buffer, count, nccl_type(type), from, comm_, stream));
}

void Nccl::barrier(Stream stream) {
  enter("barrier");
  auto* const token = reinterpret_cast<void*>(token_);
  accept(state_->nccl.all_reduce(token, token, 1, ncclFloat32, ncclMax, comm_, stream));
  synchronize(stream);
}

std::shared_ptr<Collectives> Nccl::split(int color, int key) {
  require_open();
  Group part = group_.split(color, key);
  make_context_current();
  std::shared_ptr<Nccl> made(new Nccl(state_, std::move(part)));
  ncclConfig_t config = non_blocking();
  Deadline const deadline(group_.timeout());
  auto const slot = new_slot();
  ncclResult_t const result = state_->nccl.comm_split(comm_, color, key, slot.get(), &config);
  // Whatever it says, the split is under way, which only the parent shows; the slot is filled at its end.
  accept(result == ncclSuccess ? ncclInProgress : result, deadline);
  made->comm_ = look_at(*slot);
  made->wait_until_ready(ncclInProgress, deadline);
  return made;
}

}  // namespace muster::detail
