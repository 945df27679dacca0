// SPDX-License-Identifier: Apache-2.0
#include "communicator/hosts_all_reduce.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "communicator/reduce_elements.hpp"
#include "communicator/stream_copy.hpp"

namespace muster::detail {
namespace {

// What a host works on at once.
constexpr std::size_t host_slot_bytes = 512u << 10;
// A partial result of 16-bit floats is in binary32.
constexpr std::size_t partial_bytes = 2 * host_slot_bytes;
// Up to here, for all ranks of a host together, the leader reduces alone, which saves a meeting.
constexpr std::size_t whole_bytes = 16u << 10;

}  // namespace

std::size_t HostsAllReduce::bytes_for(int ranks) {
  auto const all = static_cast<std::size_t>(ranks);
  return (all + 1) * sizeof(Counter) + 2 * (all * host_slot_bytes + partial_bytes + host_slot_bytes);
}

HostsAllReduce::HostsAllReduce(std::unique_ptr<SharedSegment> segment, int rank, int ranks,
                               std::unique_ptr<LeadersAllReduce> leaders, bool yield,
                               std::function<void(unsigned)> patience)
    : segment_(std::move(segment)),
      rank_(rank),
      ranks_(ranks),
      leaders_(std::move(leaders)),
      wait_(yield, std::move(patience)),
      counters_(reinterpret_cast<Counter*>(segment_->data())),
      buffers_(segment_->data() + static_cast<std::size_t>(ranks + 1) * sizeof(Counter)),
      operands_(static_cast<std::size_t>(ranks)) {}

std::byte* HostsAllReduce::slot(int rank) const {
  return buffers_ + (2 * static_cast<std::size_t>(rank) + buffer()) * host_slot_bytes;
}

std::byte* HostsAllReduce::partial() const {
  return buffers_ + 2 * static_cast<std::size_t>(ranks_) * host_slot_bytes + buffer() * partial_bytes;
}

std::byte* HostsAllReduce::result(std::uint64_t piece) const {
  return buffers_ + 2 * (static_cast<std::size_t>(ranks_) * host_slot_bytes + partial_bytes) +
         piece % 2 * host_slot_bytes;
}

void HostsAllReduce::await_all() const {
  for (int r = 0; r < ranks_; ++r) {
    if (r != rank_) wait_.until(counters_[r].turn, turn_);
  }
}

void HostsAllReduce::all_reduce(const void* in, void* out, std::size_t count, DataType type, Reduction op) {
  auto const size = size_of(type);
  auto const most = host_slot_bytes / size;
  auto const* const from = static_cast<const std::byte*>(in);
  auto* const to = static_cast<std::byte*>(out);
  for (std::size_t at = 0; at < count; at += most) {
    auto const length = std::min(most, count - at);
    reduce_here(from + at * size, length, type, op);
    if (leaders_) {
      await_all();
      leaders_->start({partial(), result(piece_), length, partial_type(type), type, op});
    }
    if (at > 0) take(to + (at - most) * size, most * size);
    ++piece_;
  }
  auto const last = (count - 1) / most * most;
  take(to + last * size, (count - last) * size);
}

void HostsAllReduce::reduce_here(const std::byte* in, std::size_t count, DataType type, Reduction op) {
  auto const partial_op = op == Reduction::average ? Reduction::sum : op;
  auto const size = size_of(type);
  auto const wire = partial_type(type);
  auto const bytes = count * size;
  auto const ranks = static_cast<std::size_t>(ranks_);
  std::byte* const mine = slot(rank_);
  auto const reduce = [&](std::size_t begin, std::size_t end) {
    for (int r = 0; r < ranks_; ++r)
      operands_[static_cast<std::size_t>(r)] = (r == rank_ ? in : slot(r)) + begin;
    reduce_elements(partial() + begin / size * size_of(wire), wire, operands_, (end - begin) / size, type,
                    partial_op, 1);
  };
  if (bytes * ranks <= whole_bytes) {
    if (rank_ != 0) std::memcpy(mine, in, bytes);
    post();
    if (!leaders_) return;
    await_all();
    return reduce(0, bytes);
  }
  // Slices end on cache lines.
  auto const slice = ((bytes + ranks - 1) / ranks + cache_line - 1) / cache_line * cache_line;
  auto const own = std::min(bytes, static_cast<std::size_t>(rank_) * slice);
  auto const own_end = std::min(bytes, own + slice);
  stream_copy(mine, in, own);
  stream_copy(mine + own_end, in + own_end, bytes - own_end);
  stream_fence();
  post();
  await_all();
  reduce(own, own_end);
  post();
}

void HostsAllReduce::take(std::byte* out, std::size_t bytes) {
  auto& exchanged = counters_[ranks_].turn;
  auto const done = taken_ + 1;
  if (leaders_) {
    leaders_->finish();
    exchanged.store(done, std::memory_order_release);
  } else {
    wait_.until(exchanged, done);
  }
  std::memcpy(out, result(done - 1), bytes);
  taken_ = done;
}

}  // namespace muster::detail
