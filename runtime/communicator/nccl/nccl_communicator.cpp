// SPDX-License-Identifier: Apache-2.0
#include "communicator/nccl/nccl_communicator.hpp"

#include <array>
#include <utility>

#include "communicator/nccl/nccl_ids.hpp"
#include "communicator/nccl/nccl_stream.hpp"
#include "communicator/nccl/nccl_work.hpp"
#include "communicator/premul_scalar.hpp"
#include "telemetry/phase.hpp"

namespace muster::detail {
namespace {

ncclDataType_t nccl_type(DataType type) {
  // In the order of DataType.
  constexpr std::array types{ncclFloat32, ncclFloat64, ncclBfloat16, ncclFloat16, ncclInt8,
                             ncclUint8,   ncclInt32,   ncclUint32,   ncclInt64,   ncclUint64};
  return types.at(static_cast<std::size_t>(type));
}

ncclRedOp_t nccl_op(Reduction op) {
  // In the order of Reduction.
  constexpr std::array ops{ncclSum, ncclAvg, ncclMin, ncclMax, ncclProd};
  return ops.at(static_cast<std::size_t>(op));
}

// After ncclSuccess the creation from a parent is still in progress, too, which only the parent reports. NCCL
// fills the slot at its end.
ncclResult_t progress_of_parent(ncclResult_t result) {
  return result == ncclSuccess ? ncclInProgress : result;
}

// Grouped calls of NCCL may return either.
bool is_accepted(ncclResult_t result) { return result == ncclSuccess || result == ncclInProgress; }

}  // namespace

std::shared_ptr<NcclCommunicator> NcclCommunicator::init(std::shared_ptr<NcclState> state,
                                                         CommunicatorGroup group, const Deadline& deadline) {
  std::shared_ptr<NcclCommunicator> made(new NcclCommunicator(std::move(state), std::move(group)));
  auto& self = *made;
  std::lock_guard const lock(self.comm_.mutex());
  self.group_.begin_setup("NCCL initialisation");
  auto const wait_scope = self.group_.wait_scope();
  self.comm_.make_context_current();
  const auto& nccl = self.state_->nccl;
  auto& timings = *self.group_.job().timings;
  std::vector<ncclUniqueId> ids;
  {
    observe::Phase const phase("NCCL id", timings.nccl_id);
    ids = exchange_ids(nccl, self.group_, deadline);
  }
  {
    observe::Phase const phase("NCCL initialisation", timings.nccl_init);
    self.comm_.create(deadline, [&](ncclComm_t* slot, ncclConfig_t* config) {
      if (ids.size() == 1)
        return nccl.comm_init_rank_config(slot, self.size(), ids.front(), self.rank(), config);
      return nccl.comm_init_rank_scalable(slot, self.size(), self.rank(), static_cast<int>(ids.size()),
                                          ids.data(), config);
    });
  }
  observe::Phase const phase("NCCL's first collective", timings.first_collective);
  self.first_collective(deadline);
  return made;
}

std::shared_ptr<CommunicatorBackend> NcclCommunicator::split(int color, int key) {
  std::lock_guard const lock(comm_.mutex());
  require_open();
  CommunicatorGroup part = group_.split(color, key);
  auto const wait_scope = group_.wait_scope();
  comm_.make_context_current();
  std::shared_ptr<NcclCommunicator> made(new NcclCommunicator(state_, std::move(part)));
  std::lock_guard const made_lock(made->comm_.mutex());
  auto const deadline = group_.deadline();
  made->comm_.create(deadline, [&](ncclComm_t* slot, ncclConfig_t* config) {
    auto const result = state_->nccl.comm_split(comm_.get(), color, key, slot, config);
    comm_.wait_while_in_progress(comm_.get(), progress_of_parent(result), deadline);
    return ncclInProgress;
  });
  made->first_collective(deadline);
  return made;
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
  comm_.barrier(stream, deadline);
}

void NcclCommunicator::run(const CollectiveCall& call, Stream stream) {
  std::lock_guard const lock(comm_.mutex());
  require_open();
  begin(call, true);
  if (call.kind == OperationKind::barrier) return comm_.barrier(stream, group_.deadline());
  comm_.wait_while_in_progress(enqueue(call, stream));
  comm_.hand_to_watchdog(stream);
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

ncclResult_t NcclCommunicator::enqueue(const CollectiveCall& call, Stream stream) {
  if (call.is_empty_collective(ranks())) return ncclSuccess;
  if (!call.factor) return enqueue(call, nccl_op(call.reduction), stream);
  const auto& nccl = state_->nccl;
  auto factor = premul_scalar(*call.factor, call.type);
  ncclRedOp_t op = ncclSum;
  auto result =
      nccl.create_premul_sum(&op, factor.data(), nccl_type(call.type), ncclScalarHostImmediate, comm_.get());
  if (result != ncclSuccess) return result;
  result = enqueue(call, op, stream);
  nccl.destroy_op(op, comm_.get());  // nccl.h: as soon as the last function with this operator has returned
  return result;
}

ncclResult_t NcclCommunicator::enqueue(const CollectiveCall& call, ncclRedOp_t op, Stream stream) {
  const auto& nccl = state_->nccl;
  auto const kind = call.kind;
  auto const peer = call.peer;
  auto const count = call.count;
  const void* const in = call.in;
  void* const out = call.out;
  auto const type = nccl_type(call.type);
  switch (kind) {
    case OperationKind::all_reduce:
      return nccl.all_reduce(in, out, count, type, op, comm_.get(), stream);
    case OperationKind::reduce:
      return nccl.reduce(in, out, count, type, op, peer, comm_.get(), stream);
    case OperationKind::broadcast:
      return nccl.broadcast(in, out, count, type, peer, comm_.get(), stream);
    case OperationKind::all_gather:
      return nccl.all_gather(in, out, count, type, comm_.get(), stream);
    case OperationKind::all_gather_v:
      return in_nccl_group([&] { return enqueue_shares(call, stream); });
    case OperationKind::reduce_scatter:
      return nccl.reduce_scatter(in, out, count, type, op, comm_.get(), stream);
    case OperationKind::reduce_scatter_v:
      return in_nccl_group([&] { return enqueue_reductions(call, op, stream); });
    case OperationKind::all_to_all: {
      std::vector<std::size_t> const counts(ranks(), count);
      return in_nccl_group([&] { return enqueue_slices(call, counts, counts, stream); });
    }
    case OperationKind::all_to_all_v:
      return in_nccl_group([&] { return enqueue_slices(call, call.counts, call.recv_counts, stream); });
    case OperationKind::send:
      return nccl.send(in, count, type, peer, comm_.get(), stream);
    case OperationKind::recv:
      return nccl.recv(out, count, type, peer, comm_.get(), stream);
    default:
      throw_not_run(kind);
  }
}

// NCCL has no all_gather_v: each share is a broadcast, and NCCL runs the broadcasts of one group
// concurrently.
ncclResult_t NcclCommunicator::enqueue_shares(const CollectiveCall& call, Stream stream) {
  ncclResult_t result = ncclSuccess;
  auto* to = static_cast<std::byte*>(call.out);
  for (int r = 0; r < size() && is_accepted(result); ++r) {
    auto const count = call.counts[static_cast<std::size_t>(r)];
    if (count > 0)
      result = state_->nccl.broadcast(call.in, to, count, nccl_type(call.type), r, comm_.get(), stream);
    to += count * size_of(call.type);
  }
  return result;
}

// As enqueue_shares(): each share is a reduction to its rank.
ncclResult_t NcclCommunicator::enqueue_reductions(const CollectiveCall& call, ncclRedOp_t op, Stream stream) {
  ncclResult_t result = ncclSuccess;
  auto const* from = static_cast<const std::byte*>(call.in);
  for (int r = 0; r < size() && is_accepted(result); ++r) {
    auto const count = call.counts[static_cast<std::size_t>(r)];
    void* const out = r == rank() ? call.out : nullptr;
    if (count > 0)
      result = state_->nccl.reduce(from, out, count, nccl_type(call.type), op, r, comm_.get(), stream);
    from += count * size_of(call.type);
  }
  return result;
}

// ncclAlltoAll exists only since NCCL 2.28.
ncclResult_t NcclCommunicator::enqueue_slices(const CollectiveCall& call,
                                              std::span<const std::size_t> send_counts,
                                              std::span<const std::size_t> recv_counts, Stream stream) {
  const auto& nccl = state_->nccl;
  auto const* from = static_cast<const std::byte*>(call.in);
  auto* to = static_cast<std::byte*>(call.out);
  auto const type = nccl_type(call.type);
  ncclResult_t result = ncclSuccess;
  for (int r = 0; r < size() && is_accepted(result); ++r) {
    auto const sent = send_counts[static_cast<std::size_t>(r)];
    auto const received = recv_counts[static_cast<std::size_t>(r)];
    if (sent > 0) result = nccl.send(from, sent, type, r, comm_.get(), stream);
    if (received > 0 && is_accepted(result)) result = nccl.recv(to, received, type, r, comm_.get(), stream);
    from += sent * size_of(call.type);
    to += received * size_of(call.type);
  }
  return result;
}

void NcclCommunicator::run_group(GroupedCalls::Calls calls) {
  std::lock_guard const lock(comm_.mutex());
  require_open();
  if (calls.messages.empty() && calls.collectives.empty()) return;
  std::vector<int> peers;
  for (const auto& message : calls.messages) peers.push_back(message.call.peer);
  if (!peers.empty()) group_.begin_messages(control::grouped_messages, peers);
  for (const auto& collective : calls.collectives) begin(collective.call, true);
  Stream stream = nullptr;
  auto const result = in_nccl_group([&] {
    ncclResult_t last = ncclSuccess;
    for (auto const* part : {&calls.messages, &calls.collectives}) {
      for (const auto& recorded : *part) {
        if (is_accepted(last)) last = enqueue(recorded.call, recorded.stream);
        stream = recorded.stream;
      }
    }
    return last;
  });
  comm_.wait_while_in_progress(result);
  comm_.hand_to_watchdog(stream);  // one is enough: all streams of an NCCL group wait for the whole group
}

// An event on one of the group's streams is enough, as for the watchdog.
std::unique_ptr<PendingWork> NcclCommunicator::start_group(GroupedCalls::Calls calls) {
  std::lock_guard const lock(comm_.mutex());
  require_open();
  auto const& last = calls.collectives.empty() ? calls.messages : calls.collectives;
  if (last.empty()) return nullptr;
  Stream const stream = last.back().stream;
  if (comm_.is_captured(stream))
    throw Error(ErrorCode::usage, "async: not possible while its stream is captured into a CUDA graph");
  run_group(std::move(calls));
  return std::make_unique<NcclWork>(state_, std::shared_ptr<NcclComm>(shared_from_this(), &comm_), stream);
}

std::vector<std::vector<std::uint64_t>> NcclCommunicator::host_all_gather(
    const char* what, const std::vector<std::uint64_t>& mine) {
  std::lock_guard const lock(comm_.mutex());
  return CommunicatorBase::host_all_gather(what, mine);
}

std::shared_ptr<CommStream> NcclCommunicator::make_stream() {
  require_open();
  return make_nccl_stream(state_, std::shared_ptr<NcclComm>(shared_from_this(), &comm_));
}

}  // namespace muster::detail
