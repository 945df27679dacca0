// SPDX-License-Identifier: Apache-2.0
#include "communicator/host/shm_short_collectives.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "communicator/host/reduce_elements.hpp"

namespace muster::detail {
namespace {

// Up to this size, all ranks together, every rank reduces all data, which needs one synchronization instead
// of two. Where ranks share cores a synchronization is a context switch.
constexpr std::size_t reduced_bytes = 8u << 10;
constexpr std::size_t reduced_bytes_on_shared_cores = 32u << 10;

void copy(void* to, const void* from, std::size_t bytes) {
  if (bytes > 0 && to != from) std::memcpy(to, from, bytes);
}

// Of a rank's share in an all_gather or a reduce_scatter.
std::size_t share_bytes(const CollectiveCall& call, int rank) {
  auto const count = has_shares(call.kind) ? call.counts[static_cast<std::size_t>(rank)] : call.count;
  return count * size_of(call.type);
}

std::size_t longest_share_bytes(const CollectiveCall& call) {
  auto const count =
      has_shares(call.kind) ? *std::max_element(call.counts.begin(), call.counts.end()) : call.count;
  return count * size_of(call.type);
}

}  // namespace

std::size_t ShmShortCollectives::bytes_for(int ranks) {
  return static_cast<std::size_t>(ranks) * slots * (sizeof(Line) + slot_bytes);
}

ShmShortCollectives::ShmShortCollectives(std::byte* memory, int rank, int ranks, bool yield,
                                         std::function<void(unsigned)> on_spin,
                                         std::function<void()> on_mismatch)
    : rank_(rank),
      ranks_(ranks),
      reduced_bytes_(yield ? reduced_bytes_on_shared_cores : reduced_bytes),
      wait_(yield, std::move(on_spin)),
      on_mismatch_(std::move(on_mismatch)),
      lines_(reinterpret_cast<Line*>(memory)),
      slots_(memory + static_cast<std::size_t>(ranks) * slots * sizeof(Line)),
      operands_(static_cast<std::size_t>(ranks)) {}

bool ShmShortCollectives::is_short(const CollectiveCall& call) const {
  auto const ranks = static_cast<std::size_t>(ranks_);
  auto const bytes = call.count * size_of(call.type);
  switch (call.kind) {
    case OperationKind::barrier:
      return true;
    case OperationKind::all_reduce:
    case OperationKind::reduce:
      return bytes * ranks <= reduced_bytes_ && bytes <= slot_bytes;
    case OperationKind::broadcast:
      return bytes <= slot_bytes;
    case OperationKind::all_gather:
    case OperationKind::all_gather_v:
      return longest_share_bytes(call) <= slot_bytes;
    case OperationKind::all_to_all:
      return bytes * ranks <= slot_bytes;
    case OperationKind::reduce_scatter:
    case OperationKind::reduce_scatter_v:
      return longest_share_bytes(call) * ranks <= slot_bytes;
    default:
      return false;
  }
}

void ShmShortCollectives::run(const CollectiveCall& call, std::uint64_t digest) {
  begin_round();
  switch (call.kind) {
    case OperationKind::barrier:
      return barrier(digest);
    case OperationKind::all_reduce:
      return reduce(call, static_cast<std::byte*>(call.out), digest);
    case OperationKind::reduce:
      return reduce(call, call.peer == rank_ ? static_cast<std::byte*>(call.out) : nullptr, digest);
    case OperationKind::broadcast:
      return broadcast(call, digest);
    case OperationKind::all_gather:
    case OperationKind::all_gather_v:
      return all_gather(call, digest);
    case OperationKind::all_to_all:
      return all_to_all(call, digest);
    case OperationKind::reduce_scatter:
    case OperationKind::reduce_scatter_v:
      return reduce_scatter(call, digest);
    default:
      throw_not_run(call.kind);
  }
}

std::byte* ShmShortCollectives::place(int rank, std::size_t bytes) const {
  if (bytes <= sizeof(Line::payload)) return line(rank, round_).payload;
  return slots_ + (static_cast<std::size_t>(slots * rank) + round_ % slots) * slot_bytes;
}

// The wait is for more rounds than necessary, so that a root which is ahead rarely reads the others' lines.
void ShmShortCollectives::begin_round() {
  ++round_;
  if (begun_ + slots > round_) return;
  auto const needed = round_ - slots / 2;
  for (int r = 0; r < ranks_; ++r)
    if (r != rank_) wait_.until(line(r, needed).round, needed);
  begun_ = needed;
}

void ShmShortCollectives::write(const void* data, std::size_t bytes, std::uint64_t digest) {
  copy(place(rank_, bytes), data, bytes);
  auto& mine = line(rank_, round_);
  mine.digest = digest;
  mine.round.store(round_, std::memory_order_release);
}

const std::byte* ShmShortCollectives::read(int rank, std::size_t bytes, std::uint64_t digest) {
  auto& theirs = line(rank, round_);
  wait_.until(theirs.round, round_);
  if (theirs.digest != digest) on_mismatch_();
  return place(rank, bytes);
}

// `out` is null on ranks that do not want the result.
void ShmShortCollectives::reduce(const CollectiveCall& call, std::byte* out, std::uint64_t digest) {
  auto const bytes = call.count * size_of(call.type);
  write(call.in, bytes, digest);
  if (out == nullptr) return;
  for (int r = 0; r < ranks_; ++r)
    operands_[static_cast<std::size_t>(r)] = r == rank_ ? call.in : read(r, bytes, digest);
  begun_ = round_;
  reduce_elements(out, operands_, call.count, call.type, call.reduction, ranks_);
}

void ShmShortCollectives::broadcast(const CollectiveCall& call, std::uint64_t digest) {
  auto const bytes = call.count * size_of(call.type);
  if (call.peer == rank_) return write(call.in, bytes, digest);
  write(nullptr, 0, digest);
  copy(call.out, read(call.peer, bytes, digest), bytes);
}

void ShmShortCollectives::all_gather(const CollectiveCall& call, std::uint64_t digest) {
  write(call.in, share_bytes(call, rank_), digest);
  auto* share = static_cast<std::byte*>(call.out);
  for (int r = 0; r < ranks_; ++r) {
    auto const bytes = share_bytes(call, r);
    copy(share, r == rank_ ? call.in : read(r, bytes, digest), bytes);
    share += bytes;
  }
  begun_ = round_;
}

void ShmShortCollectives::reduce_scatter(const CollectiveCall& call, std::uint64_t digest) {
  std::size_t before = 0;
  for (int r = 0; r < rank_; ++r) before += share_bytes(call, r);
  auto const bytes = call.in_count(static_cast<std::size_t>(ranks_)) * size_of(call.type);
  write(call.in, bytes, digest);
  auto const* const own_data = static_cast<const std::byte*>(call.in);
  for (int r = 0; r < ranks_; ++r)
    operands_[static_cast<std::size_t>(r)] = (r == rank_ ? own_data : read(r, bytes, digest)) + before;
  begun_ = round_;
  auto const own = share_bytes(call, rank_) / size_of(call.type);
  if (own > 0) reduce_elements(call.out, operands_, own, call.type, call.reduction, ranks_);
}

void ShmShortCollectives::all_to_all(const CollectiveCall& call, std::uint64_t digest) {
  auto const slice = call.count * size_of(call.type);
  auto const bytes = slice * static_cast<std::size_t>(ranks_);
  write(call.in, bytes, digest);
  auto* to = static_cast<std::byte*>(call.out);
  auto const* const own_data = static_cast<const std::byte*>(call.in);
  for (int r = 0; r < ranks_; ++r, to += slice)
    copy(to, (r == rank_ ? own_data : read(r, bytes, digest)) + static_cast<std::size_t>(rank_) * slice,
         slice);
  begun_ = round_;
}

void ShmShortCollectives::barrier(std::uint64_t digest) {
  write(nullptr, 0, digest);
  for (int r = 0; r < ranks_; ++r)
    if (r != rank_) read(r, 0, digest);
  begun_ = round_;
}

}  // namespace muster::detail
