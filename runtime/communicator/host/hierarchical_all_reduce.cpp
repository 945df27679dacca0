// SPDX-License-Identifier: Apache-2.0
#include "communicator/host/hierarchical_all_reduce.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "communicator/host/reduce_elements.hpp"
#include "communicator/host/nontemporal_copy.hpp"

namespace muster::detail {
namespace {

// A piece is so long that hosts wait seldom for each other, unless many ranks make the memory long.
constexpr std::size_t most_slot_bytes = 2u << 20;
constexpr std::size_t least_slot_bytes = 512u << 10;
constexpr std::size_t slots_bytes = 64u << 20;
// Up to here, for all ranks of a host together, the first rank reduces alone, which saves a meeting.
constexpr std::size_t whole_bytes = 16u << 10;
// Up to here one lane carries everything: the others would only add messages.
constexpr std::size_t one_lane_bytes = 32u << 10;
static_assert(one_lane_bytes >= whole_bytes, "who reduces alone exchanges alone");
// A message in a lane is about as long, or there are fewer lanes.
constexpr std::size_t lane_message_bytes = 32u << 10;

}  // namespace

HierarchicalAllReduce::Shape HierarchicalAllReduce::Shape::of(std::size_t hosts, int fewest, int most) {
  auto const share = std::bit_floor(slots_bytes / 2 / static_cast<std::size_t>(most));
  auto const slot = std::clamp(share, least_slot_bytes, most_slot_bytes);
  return {slot, std::clamp(static_cast<int>(slot / lane_message_bytes / hosts), 1, fewest)};
}

// A partial result of 16-bit floats is in binary32.
std::size_t HierarchicalAllReduce::bytes_for(int ranks, const Shape& shape) {
  auto const all = static_cast<std::size_t>(ranks);
  return 2 * (all * sizeof(Counter) + all * shape.slot + 2 * shape.slot + shape.slot);
}

HierarchicalAllReduce::HierarchicalAllReduce(std::unique_ptr<SharedSegment> segment, int rank, int ranks,
                               const Shape& shape, std::unique_ptr<InterHostAllReduce> lane, bool yield,
                               std::function<void(unsigned)> patience)
    : segment_(std::move(segment)),
      rank_(rank),
      ranks_(ranks),
      shape_(shape),
      lane_(std::move(lane)),
      wait_(yield, std::move(patience)),
      counters_(reinterpret_cast<Counter*>(segment_->data())),
      exchanged_(counters_ + ranks),
      buffers_(segment_->data() + 2 * static_cast<std::size_t>(ranks) * sizeof(Counter)),
      operands_(static_cast<std::size_t>(ranks)) {}

// Parts end on cache lines.
HierarchicalAllReduce::Part HierarchicalAllReduce::part(std::size_t bytes, int parts, int index) {
  auto const count = static_cast<std::size_t>(parts);
  auto const most = ((bytes + count - 1) / count + cache_line - 1) / cache_line * cache_line;
  auto const begin = std::min(bytes, static_cast<std::size_t>(index) * most);
  return {begin, std::min(bytes, begin + most)};
}

int HierarchicalAllReduce::lanes(std::size_t bytes) const { return bytes <= one_lane_bytes ? 1 : shape_.lanes; }

std::byte* HierarchicalAllReduce::slot(int rank) const {
  return buffers_ + (2 * static_cast<std::size_t>(rank) + buffer()) * shape_.slot;
}

std::byte* HierarchicalAllReduce::partial() const {
  return buffers_ + 2 * static_cast<std::size_t>(ranks_) * shape_.slot + buffer() * 2 * shape_.slot;
}

std::byte* HierarchicalAllReduce::result(std::uint64_t piece) const {
  return buffers_ + 2 * (static_cast<std::size_t>(ranks_) * shape_.slot + 2 * shape_.slot) +
         piece % 2 * shape_.slot;
}

void HierarchicalAllReduce::await_all() const {
  for (int r = 0; r < ranks_; ++r) {
    if (r != rank_) wait_.until(counters_[r].turn, turn_);
  }
}

void HierarchicalAllReduce::all_reduce(const void* in, void* out, std::size_t count, DataType type, Reduction op) {
  auto const size = size_of(type);
  auto const most = shape_.slot / size;
  auto const* const from = static_cast<const std::byte*>(in);
  auto* const to = static_cast<std::byte*>(out);
  for (std::size_t at = 0; at < count; at += most) {
    auto const length = std::min(most, count - at);
    reduce_here(from + at * size, length, type, op);
    start(length, type, op);
    if (at > 0) take(to + (at - most) * size, most * size);
    ++piece_;
  }
  auto const last = (count - 1) / most * most;
  take(to + last * size, (count - last) * size);
}

void HierarchicalAllReduce::reduce_here(const std::byte* in, std::size_t count, DataType type, Reduction op) {
  auto const partial_op = op == Reduction::average ? Reduction::sum : op;
  auto const size = size_of(type);
  auto const wire = partial_type(type);
  auto const bytes = count * size;
  std::byte* const mine = slot(rank_);
  auto const reduce = [&](Part part) {
    for (int r = 0; r < ranks_; ++r)
      operands_[static_cast<std::size_t>(r)] = (r == rank_ ? in : slot(r)) + part.begin;
    reduce_elements(partial() + part.begin / size * size_of(wire), wire, operands_,
                    (part.end - part.begin) / size, type, partial_op, 1);
  };
  if (bytes * static_cast<std::size_t>(ranks_) <= whole_bytes) {
    if (rank_ != 0) std::memcpy(mine, in, bytes);
    post();
    if (rank_ != 0) return;
    await_all();
    return reduce({0, bytes});
  }
  auto const own = part(bytes, ranks_, rank_);
  stream_copy(mine, in, own.begin);
  stream_copy(mine + own.end, in + own.end, bytes - own.end);
  stream_fence();
  post();
  await_all();
  reduce(own);
  // Where every rank has a lane, each goes on with what it has reduced itself.
  if (lanes(bytes) == ranks_) return;
  post();
  if (rank_ < lanes(bytes)) await_all();
}

void HierarchicalAllReduce::start(std::size_t count, DataType type, Reduction op) {
  auto const size = size_of(type);
  auto const wire = partial_type(type);
  if (rank_ >= lanes(count * size)) return;
  auto const own = part(count * size, lanes(count * size), rank_);
  lane_->start({partial() + own.begin / size * size_of(wire), result(piece_) + own.begin,
                (own.end - own.begin) / size, wire, type, op});
}

void HierarchicalAllReduce::take(std::byte* out, std::size_t bytes) {
  auto const piece = taken_++;
  auto const lanes = this->lanes(bytes);
  if (rank_ < lanes) {
    lane_->finish();
    exchanged_[rank_].turn.store(taken_, std::memory_order_release);
  }
  for (int i = 0; i < lanes; ++i) {
    auto const lane = (rank_ + i) % lanes;
    wait_.until(exchanged_[lane].turn, taken_);
    auto const there = part(bytes, lanes, lane);
    std::memcpy(out + there.begin, result(piece) + there.begin, there.end - there.begin);
  }
}

}  // namespace muster::detail
