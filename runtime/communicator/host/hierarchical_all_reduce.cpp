// SPDX-License-Identifier: Apache-2.0
#include "communicator/host/hierarchical_all_reduce.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "communicator/host/nontemporal_copy.hpp"
#include "communicator/host/reduce_elements.hpp"

namespace muster::detail {
namespace {

// Long pieces let hosts wait rarely for each other; with many ranks they are shorter, to limit the memory.
constexpr std::size_t max_slot_bytes = 2u << 20;
constexpr std::size_t min_slot_bytes = 512u << 10;
constexpr std::size_t slots_bytes = 64u << 20;
// Up to this size, all ranks of a host together, the first rank reduces alone, which saves a synchronization.
constexpr std::size_t single_rank_bytes = 16u << 10;
// Up to this size one channel carries all data: more channels would only add messages.
constexpr std::size_t single_channel_bytes = 32u << 10;
static_assert(single_channel_bytes >= single_rank_bytes, "a rank that reduces alone exchanges alone");
// Approximate length of a message in a channel; shorter ones reduce the number of channels.
constexpr std::size_t channel_message_bytes = 32u << 10;

}  // namespace

HierarchicalAllReduce::Shape HierarchicalAllReduce::Shape::choose(std::size_t hosts, int min_ranks,
                                                                  int max_ranks) {
  auto const share = std::bit_floor(slots_bytes / 2 / static_cast<std::size_t>(max_ranks));
  auto const slot = std::clamp(share, min_slot_bytes, max_slot_bytes);
  return {slot, std::clamp(static_cast<int>(slot / channel_message_bytes / hosts), 1, min_ranks)};
}

// The partial results take 2 * shape.slot each, because those of 16-bit floats are in binary32.
std::size_t HierarchicalAllReduce::bytes_for(int ranks, const Shape& shape) {
  auto const all = static_cast<std::size_t>(ranks);
  return 2 * (all * sizeof(Counter) + all * shape.slot + 2 * shape.slot + shape.slot);
}

HierarchicalAllReduce::HierarchicalAllReduce(std::unique_ptr<SharedSegment> segment, int rank, int ranks,
                                             const Shape& shape, std::unique_ptr<InterHostAllReduce> channel,
                                             bool yield, std::function<void(unsigned)> on_spin,
                                             std::function<void()> on_mismatch)
    : segment_(std::move(segment)),
      rank_(rank),
      ranks_(ranks),
      shape_(shape),
      channel_(std::move(channel)),
      wait_(yield, std::move(on_spin)),
      on_mismatch_(std::move(on_mismatch)),
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

int HierarchicalAllReduce::channels(std::size_t bytes) const {
  return bytes <= single_channel_bytes ? 1 : shape_.channels;
}

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
    if (r == rank_) continue;
    wait_.until(counters_[r].sequence, sequence_);
    if (counters_[r].digest[buffer()] != digest_) on_mismatch_();
  }
}

void HierarchicalAllReduce::all_reduce(const void* in, void* out, std::size_t count, DataType type,
                                       Reduction op, std::uint64_t digest) {
  digest_ = digest;
  auto const size = size_of(type);
  auto const most = shape_.slot / size;
  auto const* const from = static_cast<const std::byte*>(in);
  auto* const to = static_cast<std::byte*>(out);
  for (std::size_t at = 0; at < count; at += most) {
    auto const length = std::min(most, count - at);
    reduce_on_host(from + at * size, length, type, op);
    start_exchange(length, type, op);
    if (at > 0) copy_result(to + (at - most) * size, most * size);
    ++piece_;
  }
  auto const last = (count - 1) / most * most;
  copy_result(to + last * size, (count - last) * size);
}

void HierarchicalAllReduce::reduce_on_host(const std::byte* in, std::size_t count, DataType type,
                                           Reduction op) {
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
  if (bytes * static_cast<std::size_t>(ranks_) <= single_rank_bytes) {
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
  // Where every rank has a channel, each exchanges the part that it has reduced itself.
  if (channels(bytes) == ranks_) return;
  post();
  if (rank_ < channels(bytes)) await_all();
}

void HierarchicalAllReduce::start_exchange(std::size_t count, DataType type, Reduction op) {
  auto const size = size_of(type);
  auto const wire = partial_type(type);
  if (rank_ >= channels(count * size)) return;
  auto const own = part(count * size, channels(count * size), rank_);
  channel_->start({partial() + own.begin / size * size_of(wire), result(piece_) + own.begin,
                   (own.end - own.begin) / size, wire, type, op});
}

void HierarchicalAllReduce::copy_result(std::byte* out, std::size_t bytes) {
  auto const piece = copied_++;
  auto const channels = this->channels(bytes);
  if (rank_ < channels) {
    channel_->finish();
    exchanged_[rank_].sequence.store(copied_, std::memory_order_release);
  }
  for (int i = 0; i < channels; ++i) {
    auto const channel = (rank_ + i) % channels;
    wait_.until(exchanged_[channel].sequence, copied_);
    auto const range = part(bytes, channels, channel);
    std::memcpy(out + range.begin, result(piece) + range.begin, range.end - range.begin);
  }
}

}  // namespace muster::detail
