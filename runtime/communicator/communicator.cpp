// SPDX-License-Identifier: Apache-2.0
#include "muster/communicator.hpp"

#include <fmt/format.h>

#include <functional>
#include <numeric>

#include "communicator/backend.hpp"
#include "communicator/operation.hpp"

namespace muster {

using observe::Kind;
using observe::Operation;
namespace {

bool overlap(const void* a, std::size_t a_bytes, const void* b, std::size_t b_bytes) {
  auto const* const first = static_cast<const std::byte*>(a);
  auto const* const second = static_cast<const std::byte*>(b);
  std::less<> const before;
  return a_bytes > 0 && b_bytes > 0 && before(first, second + b_bytes) && before(second, first + a_bytes);
}

void require_no_overlap(bool overlapping, const char* operation) {
  if (overlapping) throw Error(ErrorCode::usage, fmt::format("{}: the two buffers overlap", operation));
}

}  // namespace

Communicator::Communicator(std::shared_ptr<detail::CommunicatorBackend> collectives)
    : collectives_(std::move(collectives)) {}

int Communicator::rank() const noexcept { return collectives_->rank(); }
int Communicator::size() const noexcept { return collectives_->size(); }
const char* Communicator::backend() const noexcept { return collectives_->backend(); }

void Communicator::barrier(Stream stream) {
  require_no_group("barrier");
  Operation const call(*collectives_, Kind::barrier, 0);
  collectives_->barrier(stream);
}

void Communicator::synchronize(Stream stream) {
  require_no_group("synchronize");
  Operation const call(*collectives_, Kind::synchronize, 0);
  collectives_->synchronize(stream);
}

Communicator Communicator::split(int color, int key) const {
  require_no_group("split");
  if (color < 0) throw Error(ErrorCode::usage, fmt::format("split: color {} is negative", color));
  Operation const call(*collectives_, Kind::split, 0);
  return Communicator(collectives_->split(color, key));
}

void Communicator::all_reduce_bytes(const void* in, void* out, std::size_t count, DataType type, Reduction op,
                                    Stream stream) {
  auto const bytes = count * size_of(type);
  require_no_overlap(in != out && overlap(in, bytes, out, bytes), "all_reduce");
  if (count == 0) return;
  Operation const call(*collectives_, Kind::all_reduce, count * size_of(type));
  collectives_->all_reduce(in, out, count, type, op, stream);
}

void Communicator::reduce_bytes(void* buffer, std::size_t count, DataType type, Reduction op, int root,
                                Stream stream) {
  require_rank(root, "reduce");
  if (count == 0) return;
  Operation const call(*collectives_, Kind::reduce, count * size_of(type));
  collectives_->reduce(buffer, count, type, op, root, stream);
}

void Communicator::broadcast_bytes(void* buffer, std::size_t count, DataType type, int root, Stream stream) {
  require_rank(root, "broadcast");
  if (count == 0) return;
  Operation const call(*collectives_, Kind::broadcast, count * size_of(type));
  collectives_->broadcast(buffer, count, type, root, stream);
}

void Communicator::all_gather_bytes(const void* in, void* out, std::size_t count, DataType type,
                                    Stream stream) {
  auto const bytes = count * size_of(type);
  const void* const share = static_cast<std::byte*>(out) + static_cast<std::size_t>(rank()) * bytes;
  require_no_overlap(in != share && overlap(in, bytes, out, bytes * static_cast<std::size_t>(size())),
                     "all_gather");
  if (count == 0) return;
  Operation const call(*collectives_, Kind::all_gather, count * size_of(type));
  collectives_->all_gather(in, out, count, type, stream);
}

void Communicator::all_gather_v_bytes(const void* in, void* out, std::span<const std::size_t> counts,
                                      DataType type, Stream stream) {
  auto const own = counts.begin() + rank();
  auto const before = std::accumulate(counts.begin(), own, std::size_t{0});
  auto const all = std::accumulate(own, counts.end(), before);
  const void* const share = static_cast<std::byte*>(out) + before * size_of(type);
  require_no_overlap(in != share && overlap(in, *own * size_of(type), out, all * size_of(type)),
                     "all_gather_v");
  if (all == 0) return;
  Operation const call(*collectives_, Kind::all_gather_v, *own * size_of(type));
  collectives_->all_gather_v(in, out, counts, type, stream);
}

void Communicator::reduce_scatter_bytes(const void* in, void* out, std::size_t count, DataType type,
                                        Reduction op, Stream stream) {
  auto const bytes = count * size_of(type);
  const void* const share = static_cast<const std::byte*>(in) + static_cast<std::size_t>(rank()) * bytes;
  require_no_overlap(out != share && overlap(in, bytes * static_cast<std::size_t>(size()), out, bytes),
                     "reduce_scatter");
  if (count == 0) return;
  Operation const call(*collectives_, Kind::reduce_scatter,
                       count * size_of(type) * static_cast<std::size_t>(size()));
  collectives_->reduce_scatter(in, out, count, type, op, stream);
}

void Communicator::all_to_all_bytes(const void* in, void* out, std::size_t count, DataType type,
                                    Stream stream) {
  auto const bytes = count * size_of(type) * static_cast<std::size_t>(size());
  require_no_overlap(overlap(in, bytes, out, bytes), "all_to_all");
  if (count == 0) return;
  Operation const call(*collectives_, Kind::all_to_all,
                       count * size_of(type) * static_cast<std::size_t>(size()));
  collectives_->all_to_all(in, out, count, type, stream);
}

void Communicator::send_bytes(const void* buffer, std::size_t count, DataType type, int to, Stream stream) {
  require_rank(to, "send");
  if (to == rank()) throw Error(ErrorCode::usage, fmt::format("send: rank {} cannot send to itself", to));
  if (count == 0) return;
  Operation const call(*collectives_, Kind::send, count * size_of(type));
  collectives_->send(buffer, count, type, to, stream);
}

void Communicator::recv_bytes(void* buffer, std::size_t count, DataType type, int from, Stream stream) {
  require_rank(from, "recv");
  if (from == rank())
    throw Error(ErrorCode::usage, fmt::format("recv: rank {} cannot receive from itself", from));
  if (count == 0) return;
  Operation const call(*collectives_, Kind::recv, count * size_of(type));
  collectives_->recv(buffer, count, type, from, stream);
}

void Communicator::require_factor(std::size_t mine, std::size_t all, const char* operation) const {
  auto const ranks = static_cast<std::size_t>(size());
  if (all / ranks == mine && all % ranks == 0) return;
  throw Error(ErrorCode::usage,
              fmt::format("{}: {} elements for {} ranks of {} elements each", operation, all, ranks, mine));
}

void Communicator::require_equal(std::size_t in, std::size_t out, const char* operation) const {
  if (in == out) return;
  throw Error(ErrorCode::usage, fmt::format("{}: {} elements in, {} elements out", operation, in, out));
}

void Communicator::require_shares(std::size_t mine, std::size_t all,
                                  std::span<const std::size_t> counts) const {
  auto const ranks = static_cast<std::size_t>(size());
  if (counts.size() != ranks)
    throw Error(ErrorCode::usage, fmt::format("all_gather_v: {} counts for {} ranks", counts.size(), ranks));
  auto const own = counts[static_cast<std::size_t>(rank())];
  if (mine != own) {
    throw Error(ErrorCode::usage,
                fmt::format("all_gather_v: {} elements on rank {}, but its count is {}", mine, rank(), own));
  }
  auto const sum = std::accumulate(counts.begin(), counts.end(), std::size_t{0});
  if (all != sum)
    throw Error(ErrorCode::usage,
                fmt::format("all_gather_v: {} elements in all, but the counts add up to {}", all, sum));
}

void Communicator::require_no_group(const char* operation) const {
  if (collectives_->in_group())
    throw Error(ErrorCode::usage, fmt::format("{}: not possible among grouped calls", operation));
}

void Communicator::require_rank(int rank, const char* operation) const {
  if (rank >= 0 && rank < size()) return;
  throw Error(ErrorCode::usage, fmt::format("{}: rank {} is not in 0 … {}", operation, rank, size() - 1));
}

CallGroup::CallGroup(Communicator communicator) : communicator_(std::move(communicator)) {
  communicator_.require_no_group("grouped");
  communicator_.collectives_->begin_group();
}

CallGroup::~CallGroup() {
  if (!issued_) communicator_.collectives_->discard_group();
}

void CallGroup::issue() {
  if (issued_) throw Error(ErrorCode::usage, "grouped: the calls were issued already");
  issued_ = true;
  Operation const call(*communicator_.collectives_, Kind::grouped, 0);
  communicator_.collectives_->end_group();
}

}  // namespace muster
