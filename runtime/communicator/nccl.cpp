// SPDX-License-Identifier: Apache-2.0
#include "communicator/nccl.hpp"

#include <fmt/format.h>

#include <atomic>
#include <utility>

#include "communicator/nccl_ids.hpp"
#include "communicator/nccl_lane.hpp"
#include "log.hpp"
#include "observe/phase.hpp"

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
    case Reduction::product:
      return ncclProd;
  }
  return ncclNumOps;
}

ncclConfig_t non_blocking() {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  return config;
}

// Among grouped calls NCCL may say either.
bool taken(ncclResult_t result) { return result == ncclSuccess || result == ncclInProgress; }

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

std::shared_ptr<Nccl> Nccl::shrink(Nccl& old, Group group, const std::vector<int>& lost,
                                   const Deadline& deadline) {
  std::shared_ptr<Nccl> made(new Nccl(old.state_, std::move(group)));
  auto& self = *made;
  self.group_.enter("NCCL shrinking");
  self.make_context_current();
  ncclConfig_t config = non_blocking();
  auto excluded = lost;
  auto const slot = self.new_slot();
  auto const result = self.state_->nccl.comm_shrink(old.comm_, excluded.data(), static_cast<int>(excluded.size()),
                                                    slot.get(), &config, nccl_shrink_abort);
  // As of a split, only the parent shows how far it is.
  self.accept(old.comm_, result == ncclSuccess ? ncclInProgress : result, deadline);
  self.comm_ = look_at(*slot);
  self.wait_until_ready(ncclInProgress, deadline);
  log::debug("nccl: '{}' goes on with {} ranks", self.group_.name(), self.size());
  return made;
}

std::shared_ptr<ncclComm_t> Nccl::new_slot() {
  return state_->slots.emplace_back(std::make_shared<ncclComm_t>(nullptr));
}

void Nccl::make_context_current() {
  require_cuda(state_->cuda.context_set_current(state_->context), "the GPU's context");
}

void Nccl::require_cuda(CUresult result, const char* what) {
  if (result != CUDA_SUCCESS)
    group_.broke(Fault::device, fmt::format("{}: CUDA says: {}", what, state_->cuda.reason(result)));
}

// `result`: of the call that made the communicator.
void Nccl::wait_until_ready(ncclResult_t result, const Deadline& deadline) {
  if (comm_ == nullptr)
    give_up(result == ncclSuccess || result == ncclInProgress ? ncclInternalError : result);
  accept(result, deadline);
  allocate_token();
}

void Nccl::allocate_token() {
  require_cuda(state_->cuda.mem_alloc(&token_, sizeof(float)), "no GPU memory for the barrier");
}

// What NCCL leaves for the first operation happens now: its kernels are loaded, its proxy thread is started,
// and what was not connected during the initialisation is.
void Nccl::first_collective(const Deadline& deadline) {
  if (size() == 1) return;
  group_.enter("first all_reduce");
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
  if (made != CUDA_SUCCESS) group_.broke(Fault::device, "no CUDA stream: " + cuda.reason(made));
  auto* const token = reinterpret_cast<void*>(token_);
  accept(state_->nccl.all_reduce(token, token, 1, ncclFloat32, ncclMax, comm_, stream), deadline);
  synchronize(stream, deadline);
}

void Nccl::require_open() const {
  if (!state_->open || comm_ == nullptr)
    throw Error(Fault::usage, "the communicator was used after the job was left or has failed");
}

template <typename Call>
void Nccl::collective(const char* operation, Call call) {
  require_open();
  if (grouped_.open()) return grouped_.keep(operation, [this, call] { said_ = call(); });
  group_.enter(operation);
  accept(call());
}

template <typename Call>
void Nccl::message(const char* operation, int peer, Call call) {
  require_open();
  if (grouped_.open()) return grouped_.keep(peer, [this, call] { said_ = call(); });
  group_.enter_messages(operation, {&peer, 1});
  accept(call());
}

// The end belongs to the start whatever went wrong between them: NCCL counts them for the whole thread.
template <typename Calls>
ncclResult_t Nccl::as_one(Calls calls) {
  ncclResult_t result = state_->nccl.group_start();
  if (result != ncclSuccess) return result;
  result = calls();
  ncclResult_t const end = state_->nccl.group_end();
  return taken(result) ? end : result;
}

void Nccl::all_reduce(const void* in, void* out, std::size_t count, DataType type, Reduction op,
                      Stream stream) {
  collective("all_reduce", [=, this] {
    return state_->nccl.all_reduce(in, out, count, nccl_type(type), nccl_op(op), comm_, stream);
  });
}

void Nccl::reduce(void* buffer, std::size_t count, DataType type, Reduction op, int root, Stream stream) {
  collective("reduce", [=, this] {
    return state_->nccl.reduce(buffer, buffer, count, nccl_type(type), nccl_op(op), root, comm_, stream);
  });
}

void Nccl::broadcast(void* buffer, std::size_t count, DataType type, int root, Stream stream) {
  collective("broadcast", [=, this] {
    return state_->nccl.broadcast(buffer, buffer, count, nccl_type(type), root, comm_, stream);
  });
}

void Nccl::all_gather(const void* in, void* out, std::size_t count, DataType type, Stream stream) {
  collective("all_gather",
             [=, this] { return state_->nccl.all_gather(in, out, count, nccl_type(type), comm_, stream); });
}

// NCCL has none: each share is a broadcast, and NCCL runs those of one group side by side.
void Nccl::all_gather_v(const void* in, void* out, std::span<const std::size_t> counts, DataType type,
                        Stream stream) {
  std::vector<std::size_t> const shares(counts.begin(), counts.end());
  collective("all_gather_v", [=, this] {
    return as_one([&] {
      ncclResult_t result = ncclSuccess;
      auto* to = static_cast<std::byte*>(out);
      for (int r = 0; r < size() && taken(result); ++r) {
        auto const count = shares[static_cast<std::size_t>(r)];
        if (count > 0) result = state_->nccl.broadcast(in, to, count, nccl_type(type), r, comm_, stream);
        to += count * size_of(type);
      }
      return result;
    });
  });
}

void Nccl::reduce_scatter(const void* in, void* out, std::size_t count, DataType type, Reduction op,
                          Stream stream) {
  collective("reduce_scatter", [=, this] {
    return state_->nccl.reduce_scatter(in, out, count, nccl_type(type), nccl_op(op), comm_, stream);
  });
}

// ncclAlltoAll comes with NCCL 2.28 only.
void Nccl::all_to_all(const void* in, void* out, std::size_t count, DataType type, Stream stream) {
  collective("all_to_all", [=, this] {
    return as_one([&] {
      auto const* from = static_cast<const std::byte*>(in);
      auto* to = static_cast<std::byte*>(out);
      auto const slice = count * size_of(type);
      ncclResult_t result = ncclSuccess;
      for (int r = 0; r < size() && taken(result); ++r, from += slice, to += slice) {
        result = state_->nccl.send(from, count, nccl_type(type), r, comm_, stream);
        if (taken(result)) result = state_->nccl.recv(to, count, nccl_type(type), r, comm_, stream);
      }
      return result;
    });
  });
}

void Nccl::send(const void* buffer, std::size_t count, DataType type, int to, Stream stream) {
  message("send", to,
          [=, this] { return state_->nccl.send(buffer, count, nccl_type(type), to, comm_, stream); });
}

void Nccl::recv(void* buffer, std::size_t count, DataType type, int from, Stream stream) {
  message("recv", from,
          [=, this] { return state_->nccl.recv(buffer, count, nccl_type(type), from, comm_, stream); });
}

void Nccl::begin_group() {
  require_open();
  grouped_.begin();
}

void Nccl::end_group() {
  require_open();
  auto const messages = grouped_.take_messages();
  auto const collectives = grouped_.take_collectives();
  if (messages.empty() && collectives.empty()) return;
  std::vector<int> peers;
  for (const auto& message : messages) peers.push_back(message.peer);
  if (!messages.empty()) group_.enter_messages("grouped messages", peers);
  for (const auto& collective : collectives) group_.enter(collective.operation);
  accept(as_one([&] {
    said_ = ncclSuccess;
    for (const auto& message : messages) {
      if (taken(said_)) message.call();
    }
    for (const auto& collective : collectives) {
      if (taken(said_)) collective.call();
    }
    return said_;
  }));
}

void Nccl::barrier(Stream stream) {
  require_open();
  group_.enter("barrier");
  auto* const token = reinterpret_cast<void*>(token_);
  accept(state_->nccl.all_reduce(token, token, 1, ncclFloat32, ncclMax, comm_, stream));
  synchronize(stream);
}

std::shared_ptr<Collectives> Nccl::split(int color, int key) {
  require_open();
  Group part = group_.split(color, key);
  auto const inside = group_.inside();
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
  made->first_collective(deadline);
  return made;
}

std::shared_ptr<GpuLane> Nccl::make_lane() {
  require_open();
  return make_nccl_lane(state_, shared_from_this());
}

void* Nccl::register_memory(void* memory, std::size_t bytes) {
  if (state_->nccl.comm_register == nullptr || comm_ == nullptr) return nullptr;
  void* handle = nullptr;
  ncclResult_t const result = state_->nccl.comm_register(comm_, memory, bytes, &handle);
  if (result == ncclInProgress) accept(result);
  if (result == ncclSuccess || result == ncclInProgress) return handle;
  log::debug("nccl: {} bytes are not registered: {}", bytes, state_->nccl.reason(result, comm_));
  return nullptr;
}

void Nccl::deregister_memory(void* handle) noexcept {
  if (comm_ != nullptr) state_->nccl.comm_deregister(comm_, handle);
}

}  // namespace muster::detail
