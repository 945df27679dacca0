// SPDX-License-Identifier: Apache-2.0
#include "communicator/mpi/mpi_communicator.hpp"

#include <algorithm>
#include <cstring>
#include <vector>

#include "communicator/host/premul_sum.hpp"
#include "communicator/host/reduce_elements.hpp"
#include "communicator/mpi/make_host_all_reduce.hpp"

namespace muster::detail {
namespace {

// A piece of a reduce: the buffer for results that only another rank needs.
constexpr std::size_t discarded_bytes = 4u << 20;

}  // namespace

std::shared_ptr<MpiCommunicator> MpiCommunicator::world(std::shared_ptr<MpiState> state,
                                                        CommunicatorGroup group) {
  const MpiLibrary& mpi = state->mpi;
  auto own = std::make_unique<MPI_Comm>(mpi.comm_null);
  {
    auto const wait_scope = group.wait_scope();
    MpiRequests requests(state, group, mpi.comm_null);
    requests.require_open();
    group.begin_setup("setting up");
    try {
      requests.run([&](MPI_Request* request) { return mpi.comm_idup(mpi.comm_world, own.get(), request); });
    } catch (const Error&) {
      (void)own.release();  // MPI may still write to it
      throw;
    }
  }
  {
    std::lock_guard const lock(state->mpi_mutex);
    mpi.comm_set_errhandler(*own, mpi.errors_return);
  }
  return std::shared_ptr<MpiCommunicator>(new MpiCommunicator(std::move(state), std::move(group), *own));
}

MpiCommunicator::MpiCommunicator(std::shared_ptr<MpiState> state, CommunicatorGroup group, MPI_Comm comm)
    : CommunicatorBase(std::move(group)),
      state_(std::move(state)),
      comm_(comm),
      requests_(state_, group_, comm),
      all_reduce_(make_host_all_reduce(group_, comm, requests_)),
      broadcast_(requests_, rank(), size()) {}

MpiCommunicator::~MpiCommunicator() {
  // After a failure an operation may still be in flight; its buffers are leaked, because MPI may use them
  // until the process ends.
  if (requests_.broken() || group_.failed()) {
    (void)all_reduce_.release();
    (void)discarded_.release();
    (void)reduce_scatter_.release();
    (void)slice_counts_.release();
    return;
  }
  std::lock_guard const lock(state_->mpi_mutex);
  if (state_->open) state_->mpi.comm_free(&comm_);
}

std::shared_ptr<CommunicatorBackend> MpiCommunicator::split(int color, int key) {
  require_open();
  wait_for_started();
  // The ranks meet on the control plane first, which can name the missing ones.
  CommunicatorGroup part = group_.split(color, key);
  auto const wait_scope = group_.wait_scope();
  auto const made = std::make_shared<MPI_Comm>(state_->mpi.comm_null);
  // MPI_Comm_split also progresses the operations of other threads, which cannot poll meanwhile.
  auto const code = run_bounded(
      [state = state_, whole = comm_, color, key, made] {
        std::lock_guard const lock(state->mpi_mutex);
        return state->mpi.comm_split(whole, color, key, made.get());
      },
      group_.deadline(), [this] { return group_.failed(); });
  if (!code) requests_.fail_wait();
  if (*code != MPI_SUCCESS) requests_.fail(*code);
  return std::shared_ptr<MpiCommunicator>(new MpiCommunicator(state_, std::move(part), *made));
}

void MpiCommunicator::run(const CollectiveCall& call, Stream) {
  requests_.require_open();
  auto const digest = begin(call);
  auto const wait_scope = group_.wait_scope();
  if (!call.is_message()) return collective(call, digest);
  requests_.begin_message(call);
  requests_.wait_messages();
}

void MpiCommunicator::collective(const CollectiveCall& given, std::uint64_t digest) {
  PremulSum const scaled(barrier_if_empty(given), rank(), ranks());
  const auto& call = scaled.call();
  if (size() == 1) {  // the result is this rank's data
    auto const bytes = call.in_count(1) * size_of(call.type);
    if (call.in != call.out && bytes > 0) std::memcpy(call.out, call.in, bytes);
    return;
  }
  if (all_reduce_->is_short(call)) return all_reduce_->run_short(call, digest);
  requests_.begin_collective(digest);
  switch (call.kind) {
    case OperationKind::all_reduce:
      return all_reduce_->all_reduce(call.in, call.out, call.count, call.type, call.reduction, digest);
    case OperationKind::reduce:
      return reduce(call, digest);
    case OperationKind::broadcast:
      return broadcast_.broadcast(call.out, call.count * size_of(call.type), call.peer);
    case OperationKind::all_gather:
      return all_gather(call, std::vector<std::size_t>(ranks(), call.count));
    case OperationKind::all_gather_v:
      return all_gather(call, call.counts);
    case OperationKind::reduce_scatter:
      return reduce_scatter(call, std::vector<std::size_t>(ranks(), call.count));
    case OperationKind::reduce_scatter_v:
      return reduce_scatter(call, call.counts);
    case OperationKind::all_to_all: {
      std::vector<std::size_t> const counts(ranks(), call.count);
      return exchange_slices(call.in, call.out, size_of(call.type), counts, counts);
    }
    case OperationKind::all_to_all_v:
      return all_to_all_v(call);
    case OperationKind::barrier:
      return all_reduce_->barrier(digest);
    default:
      throw_not_run(call.kind);
  }
}

// All-reduces piece by piece; ranks other than root do not want the result. MPI_Ireduce takes several times
// as long.
void MpiCommunicator::reduce(const CollectiveCall& call, std::uint64_t digest) {
  auto const piece = discarded_bytes / size_of(call.type);
  bool const is_root = rank() == call.peer;
  if (!is_root && !discarded_ && !all_reduce_->reduces_in_shared_memory())
    discarded_ = std::make_unique_for_overwrite<std::byte[]>(discarded_bytes);
  for (std::size_t at = 0; at < call.count; at += piece) {
    void* const part = at_element(call.out, at, call.type);
    all_reduce_->all_reduce(part, is_root ? part : discarded_.get(), std::min(piece, call.count - at),
                            call.type, call.reduction, digest);
  }
}

void MpiCommunicator::all_gather(const CollectiveCall& call, std::span<const std::size_t> counts) {
  auto const bytes = call.count * size_of(call.type);
  PointToPoint::Batch batch;
  auto* share = static_cast<std::byte*>(call.out);
  for (int r = 0; r < size(); ++r) {
    auto const length = counts[static_cast<std::size_t>(r)] * size_of(call.type);
    if (r != rank()) {
      requests_.begin_recv(share, length, r, batch);
      requests_.begin_send(call.in, bytes, r, batch);
    } else if (call.in != share && bytes > 0) {
      std::memcpy(share, call.in, bytes);
    }
    share += length;
  }
  requests_.wait(batch);
}

void MpiCommunicator::reduce_scatter(const CollectiveCall& call, std::span<const std::size_t> counts) {
  if (!reduce_scatter_) reduce_scatter_ = std::make_unique<PairwiseReduceScatter>(requests_, rank(), size());
  reduce_scatter_->reduce_scatter(call.in, call.out, counts, call.type, call.reduction);
}

// The ranks compare their counts first.
void MpiCommunicator::all_to_all_v(const CollectiveCall& call) {
  if (!slice_counts_) slice_counts_ = std::make_unique<std::uint64_t[]>(2 * ranks());
  auto* const sent = slice_counts_.get();
  auto* const received = sent + ranks();
  std::copy(call.counts.begin(), call.counts.end(), sent);
  std::vector<std::size_t> const ones(ranks(), 1);
  exchange_slices(sent, received, sizeof(std::uint64_t), ones, ones);
  group_.require_recv_counts(std::span(received, ranks()), call.recv_counts);
  exchange_slices(call.in, call.out, size_of(call.type), call.counts, call.recv_counts);
}

void MpiCommunicator::exchange_slices(const void* in, void* out, std::size_t size,
                                      std::span<const std::size_t> send_counts,
                                      std::span<const std::size_t> recv_counts) {
  PointToPoint::Batch batch;
  auto const* from = static_cast<const std::byte*>(in);
  auto* to = static_cast<std::byte*>(out);
  for (std::size_t r = 0; r < ranks(); ++r) {
    auto const sent = send_counts[r] * size;
    auto const received = recv_counts[r] * size;
    auto const peer = static_cast<int>(r);
    if (peer != rank()) {
      requests_.begin_recv(to, received, peer, batch);
      requests_.begin_send(from, sent, peer, batch);
    } else if (sent > 0) {
      std::memcpy(to, from, sent);
    }
    from += sent;
    to += received;
  }
  requests_.wait(batch);
}

// The messages start first, so that each side may place its collectives before or after them.
void MpiCommunicator::run_group(GroupedCalls::Calls calls) {
  require_open();
  std::vector<int> peers;
  auto const wait_scope = group_.wait_scope();
  Deadline const deadline(group_.timeout());
  group_.set_deadline(deadline);
  for (const auto& message : calls.messages) {
    requests_.begin_message(message.call);
    peers.push_back(message.call.peer);
  }
  for (const auto& recorded : calls.collectives) {
    auto const digest = begin(recorded.call);
    group_.set_deadline(deadline);
    collective(recorded.call, digest);
  }
  if (peers.empty()) return;
  std::sort(peers.begin(), peers.end());
  peers.erase(std::unique(peers.begin(), peers.end()), peers.end());
  group_.begin_messages(control::grouped_messages, peers);
  group_.set_deadline(deadline);
  requests_.wait_messages();
}

}  // namespace muster::detail
