// SPDX-License-Identifier: Apache-2.0
#include "communicator/nccl/nccl_communicator.hpp"

#include "communicator/nccl/nccl_stream.hpp"
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
    case Reduction::product:
      return ncclProd;
  }
  return ncclNumOps;
}

// Grouped calls of NCCL may return either.
bool is_accepted(ncclResult_t result) { return result == ncclSuccess || result == ncclInProgress; }

}  // namespace

void NcclCommunicator::require_open() const {
  if (state_->open && comm_ != nullptr) return;
  group_.check();
  throw Error(ErrorCode::usage, "the communicator was used after the job was left or has failed");
}

template <typename Begin, typename Call>
void NcclCommunicator::enqueue(Stream stream, Begin begin_operation, Call call) {
  begin_operation();
  wait_while_in_progress(call());
  hand_to_watchdog(stream);
}

template <typename Call>
void NcclCommunicator::collective(const char* operation, Stream stream, Call call) {
  std::lock_guard const lock(call_mutex_);
  require_open();
  if (grouped_.open()) {
    grouped_stream_ = stream;
    return grouped_.add(operation, [this, call] { nccl_result_ = call(); });
  }
  enqueue(
      stream, [&] { group_.begin_operation(operation); }, call);
}

template <typename Call>
void NcclCommunicator::message(const char* operation, int peer, Stream stream, Call call) {
  std::lock_guard const lock(call_mutex_);
  require_open();
  if (grouped_.open()) {
    grouped_stream_ = stream;
    return grouped_.add(peer, [this, call] { nccl_result_ = call(); });
  }
  enqueue(
      stream,
      [&] {
        group_.begin_messages(operation, {&peer, 1});
      },
      call);
}

// Calls group_end() after each group_start(), even after an error: NCCL counts them for the whole thread.
template <typename Calls>
ncclResult_t NcclCommunicator::in_nccl_group(Calls calls) {
  ncclResult_t result = state_->nccl.group_start();
  if (result != ncclSuccess) return result;
  result = calls();
  ncclResult_t const end = state_->nccl.group_end();
  return is_accepted(result) ? end : result;
}

void NcclCommunicator::all_reduce(const void* in, void* out, std::size_t count, DataType type, Reduction op,
                                  Stream stream) {
  collective("all_reduce", stream, [=, this] {
    return state_->nccl.all_reduce(in, out, count, nccl_type(type), nccl_op(op), comm_, stream);
  });
}

void NcclCommunicator::reduce(void* buffer, std::size_t count, DataType type, Reduction op, int root,
                              Stream stream) {
  collective("reduce", stream, [=, this] {
    return state_->nccl.reduce(buffer, buffer, count, nccl_type(type), nccl_op(op), root, comm_, stream);
  });
}

void NcclCommunicator::broadcast(void* buffer, std::size_t count, DataType type, int root, Stream stream) {
  collective("broadcast", stream, [=, this] {
    return state_->nccl.broadcast(buffer, buffer, count, nccl_type(type), root, comm_, stream);
  });
}

void NcclCommunicator::all_gather(const void* in, void* out, std::size_t count, DataType type,
                                  Stream stream) {
  collective("all_gather", stream,
             [=, this] { return state_->nccl.all_gather(in, out, count, nccl_type(type), comm_, stream); });
}

// NCCL has no such operation: each share is a broadcast, and NCCL runs the broadcasts of one group
// concurrently.
void NcclCommunicator::all_gather_v(const void* in, void* out, std::span<const std::size_t> counts,
                                    DataType type, Stream stream) {
  std::vector<std::size_t> const shares(counts.begin(), counts.end());
  collective("all_gather_v", stream, [=, this] {
    return in_nccl_group([&] {
      ncclResult_t result = ncclSuccess;
      auto* to = static_cast<std::byte*>(out);
      for (int r = 0; r < size() && is_accepted(result); ++r) {
        auto const count = shares[static_cast<std::size_t>(r)];
        if (count > 0) result = state_->nccl.broadcast(in, to, count, nccl_type(type), r, comm_, stream);
        to += count * size_of(type);
      }
      return result;
    });
  });
}

void NcclCommunicator::reduce_scatter(const void* in, void* out, std::size_t count, DataType type,
                                      Reduction op, Stream stream) {
  collective("reduce_scatter", stream, [=, this] {
    return state_->nccl.reduce_scatter(in, out, count, nccl_type(type), nccl_op(op), comm_, stream);
  });
}

// ncclAlltoAll exists only since NCCL 2.28.
void NcclCommunicator::all_to_all(const void* in, void* out, std::size_t count, DataType type,
                                  Stream stream) {
  collective("all_to_all", stream, [=, this] {
    return in_nccl_group([&] {
      auto const* from = static_cast<const std::byte*>(in);
      auto* to = static_cast<std::byte*>(out);
      auto const slice = count * size_of(type);
      ncclResult_t result = ncclSuccess;
      for (int r = 0; r < size() && is_accepted(result); ++r, from += slice, to += slice) {
        result = state_->nccl.send(from, count, nccl_type(type), r, comm_, stream);
        if (is_accepted(result)) result = state_->nccl.recv(to, count, nccl_type(type), r, comm_, stream);
      }
      return result;
    });
  });
}

void NcclCommunicator::send(const void* buffer, std::size_t count, DataType type, int to, Stream stream) {
  message("send", to, stream,
          [=, this] { return state_->nccl.send(buffer, count, nccl_type(type), to, comm_, stream); });
}

void NcclCommunicator::recv(void* buffer, std::size_t count, DataType type, int from, Stream stream) {
  message("recv", from, stream,
          [=, this] { return state_->nccl.recv(buffer, count, nccl_type(type), from, comm_, stream); });
}

void NcclCommunicator::begin_group() {
  require_open();
  grouped_.begin();
}

void NcclCommunicator::end_group() {
  std::lock_guard const lock(call_mutex_);
  require_open();
  auto const messages = grouped_.take_messages();
  auto const collectives = grouped_.take_collectives();
  if (messages.empty() && collectives.empty()) return;
  std::vector<int> peers;
  for (const auto& message : messages) peers.push_back(message.peer);
  auto const begin_operation = [&] {
    if (!messages.empty()) group_.begin_messages("grouped messages", peers);
    for (const auto& collective : collectives) group_.begin_operation(collective.operation);
  };
  auto const call = [&] {
    nccl_result_ = ncclSuccess;
    for (const auto& message : messages) {
      if (is_accepted(nccl_result_)) message.call();
    }
    for (const auto& collective : collectives) {
      if (is_accepted(nccl_result_)) collective.call();
    }
    return nccl_result_;
  };
  // One stream is enough: all streams of an NCCL group wait for the whole group.
  enqueue(grouped_stream_, begin_operation, [&] { return in_nccl_group(call); });
}

void NcclCommunicator::barrier(Stream stream) {
  std::lock_guard const lock(call_mutex_);
  require_open();
  group_.begin_operation("barrier");
  auto* const token = reinterpret_cast<void*>(token_);
  wait_while_in_progress(state_->nccl.all_reduce(token, token, 1, ncclFloat32, ncclMax, comm_, stream));
  synchronize(stream);
}

std::vector<std::vector<std::uint64_t>> NcclCommunicator::host_all_gather(
    const char* what, const std::vector<std::uint64_t>& mine) {
  std::lock_guard const lock(call_mutex_);
  return CommunicatorBase::host_all_gather(what, mine);
}

std::shared_ptr<CommStream> NcclCommunicator::make_stream() {
  require_open();
  return make_nccl_stream(state_, shared_from_this());
}

void* NcclCommunicator::register_memory(void* memory, std::size_t bytes) {
  std::lock_guard const lock(call_mutex_);
  if (state_->nccl.comm_register == nullptr || comm_ == nullptr) return nullptr;
  void* handle = nullptr;
  ncclResult_t const result = state_->nccl.comm_register(comm_, memory, bytes, &handle);
  if (result == ncclInProgress) wait_while_in_progress(result);
  if (result == ncclSuccess || result == ncclInProgress) return handle;
  log::debug("nccl: {} bytes are not registered: {}", bytes, state_->nccl.reason(result, comm_));
  return nullptr;
}

void NcclCommunicator::deregister_memory(void* handle) noexcept {
  std::lock_guard const lock(call_mutex_);
  if (comm_ != nullptr) state_->nccl.comm_deregister(comm_, handle);
}

}  // namespace muster::detail
