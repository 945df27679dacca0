// SPDX-License-Identifier: Apache-2.0
#include "communicator/host/shm_all_reduce.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "communicator/host/float16_convert.hpp"
#include "communicator/host/nontemporal_copy.hpp"
#include "communicator/host/reduce_elements.hpp"

namespace muster::detail {
namespace {

// A rank's buffer: the bytes that a long all-reduce handles at once. With 128, 512 and 1024 KiB two ranks
// moved 9.0, 10.7 and 13.2 GB/s at 4 MiB and 7.3, 9.1 and 9.8 GB/s at 64 MiB.
constexpr std::size_t slot_bytes = 512u << 10;
// The same up to this size, all ranks together, so that a core's own cache has a buffer. No rank asks its
// processor here: the pieces must be the same on every rank.
constexpr std::size_t cached_slot_bytes = 256u << 10;
constexpr std::size_t cached_total_bytes = 32u << 20;
// Bytes that are reduced at once: they stay in the L1 cache while the result is copied.
constexpr std::size_t step = 8u << 10;

std::size_t last_level_cache_bytes() {
  auto const bytes = ::sysconf(_SC_LEVEL3_CACHE_SIZE);
  return bytes > 0 ? static_cast<std::size_t>(bytes) : 8u << 20;
}

}  // namespace

std::size_t ShmAllReduce::bytes_for(int ranks) {
  return static_cast<std::size_t>(ranks) * 2 * (sizeof(Line) + slot_bytes) +
         ShmShortCollectives::bytes_for(ranks);
}

ShmAllReduce::ShmAllReduce(std::unique_ptr<SharedSegment> segment, int rank, int ranks, bool yield,
                           std::function<void(unsigned)> on_spin, std::function<void()> on_mismatch)
    : segment_(std::move(segment)),
      rank_(rank),
      ranks_(ranks),
      cached_bytes_(last_level_cache_bytes() / static_cast<std::size_t>(ranks)),
      wait_(yield, on_spin),
      on_mismatch_(on_mismatch),
      short_(segment_->data(), rank, ranks, yield, std::move(on_spin), std::move(on_mismatch)),
      lines_(reinterpret_cast<Line*>(segment_->data() + ShmShortCollectives::bytes_for(ranks))),
      slots_(reinterpret_cast<std::byte*>(lines_ + 2 * ranks)),
      operands_(static_cast<std::size_t>(ranks)) {}

std::byte* ShmAllReduce::slot(int rank) const {
  return slots_ + static_cast<std::size_t>(2 * rank + buffer_) * slot_bytes;
}

void ShmAllReduce::await_all() {
  for (int r = 0; r < ranks_; ++r) {
    if (r == rank_) continue;
    wait_.until(line(r).sequence, sequence_);
    if (line(r).digest != digest_) on_mismatch_();
  }
}

void ShmAllReduce::all_reduce(const void* in, void* out, std::size_t count, DataType type, Reduction op,
                              std::uint64_t digest) {
  digest_ = digest;
  auto const size = size_of(type);
  bypass_cache_ = count * size > cached_bytes_;
  bool const is_cached = count * size <= cached_total_bytes / static_cast<std::size_t>(ranks_);
  auto const chunk = (is_cached ? cached_slot_bytes : slot_bytes) / size;
  for (std::size_t at = 0; at < count; at += chunk) {
    auto* const to = out == nullptr ? nullptr : static_cast<std::byte*>(out) + at * size;
    reduce_chunk(static_cast<const std::byte*>(in) + at * size, to, std::min(chunk, count - at), type, op);
  }
}

void ShmAllReduce::copy_to_slot(std::byte* to, const std::byte* from, std::size_t bytes) const {
  if (bypass_cache_) return stream_copy(to, from, bytes);
  if (bytes > 0) std::memcpy(to, from, bytes);
}

std::size_t ShmAllReduce::slice_begin(std::size_t bytes, int rank) const {
  auto const ranks = static_cast<std::size_t>(ranks_);
  auto const slice = ((bytes + ranks - 1) / ranks + cache_line - 1) / cache_line * cache_line;
  return std::min(bytes, static_cast<std::size_t>(rank) * slice);
}

// Each rank copies all but its own slice into its buffer, reduces its own slice of all ranks, and writes the
// result into the gap of its buffer, from where the other ranks copy it, unless they do not want it.
void ShmAllReduce::reduce_chunk(const std::byte* in, std::byte* out, std::size_t count, DataType type,
                                Reduction op) {
  begin_round();
  auto const bytes = count * size_of(type);
  auto const begin = [&](int rank) { return slice_begin(bytes, rank); };
  auto const own = begin(rank_);
  auto const own_end = begin(rank_ + 1);
  std::byte* const mine = slot(rank_);
  copy_to_slot(mine, in, own);
  copy_to_slot(mine + own_end, in + own_end, bytes - own_end);
  if (bypass_cache_) stream_fence();
  post();
  await_all();

  for (std::size_t at = own; at < own_end; at += step) {
    auto const length = std::min(step, own_end - at);
    for (int r = 0; r < ranks_; ++r)
      operands_[static_cast<std::size_t>(r)] = r == rank_ ? in + at : slot(r) + at;
    auto* const result = out == nullptr ? mine + at : out + at;
    reduce_elements(result, operands_, length / size_of(type), type, op, ranks_);
    if (out != nullptr) copy_to_slot(mine + at, result, length);
  }
  if (bypass_cache_) stream_fence();
  post();
  if (out == nullptr) return;
  for (int i = 1; i < ranks_; ++i) {
    int const r = (rank_ + i) % ranks_;
    wait_.until(line(r).sequence, sequence_);
    std::memcpy(out + begin(r), slot(r) + begin(r), begin(r + 1) - begin(r));
  }
}

}  // namespace muster::detail
