// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "muster/export.hpp"

namespace muster {

/// The part [begin, end) of `total` items that belongs to `rank` of `size`. Shares are contiguous and do not
/// overlap, their sizes differ by at most one, and lower ranks have the larger ones. `size` is at least 1 and
/// `rank` in [0, size).
struct Share {
  std::uint64_t begin = 0, end = 0;
  std::uint64_t count() const noexcept { return end - begin; }
};
MUSTER_EXPORT Share share_of(std::uint64_t total, int rank, int size) noexcept;

/// A run's position in its data: the whole state of a Sampler that a checkpoint must store. It does not
/// depend on ranks, so a run may continue with another number of them.
struct SamplerPosition {
  std::uint64_t seed = 0;    ///< seed of the order
  std::uint64_t epoch = 0;   ///< passes over the data before this one
  std::uint64_t offset = 0;  ///< samples of this pass taken by all ranks together
  bool operator==(const SamplerPosition&) const = default;
};

/// A permutation of [0, count) for each key, without a table: a four-round Feistel network over the next
/// power of four, with Philox as its round function, applied repeatedly until the result lies in the range
/// (Black and Rogaway, "Ciphers with arbitrary finite domains", CT-RSA 2002). Thread-safe.
class MUSTER_EXPORT Permutation {
 public:
  /// @throws Error(ErrorCode::usage) when count is 0 or above 2^62.
  Permutation(std::uint64_t count, std::uint64_t seed);
  std::uint64_t count() const noexcept { return count_; }
  /// The position of `index` < count() in the order of `epoch` < 2^62.
  std::uint64_t at(std::uint64_t epoch, std::uint64_t index) const noexcept;

 private:
  std::uint64_t count_, seed_;
  int half_bits_;
};

/// Distributes the samples of a data set over the ranks: in each epoch every sample goes to exactly one rank.
/// The order depends on the seed and the epoch, and not on the number of ranks. Nothing is communicated:
/// every rank has a sampler of the same data set and position, and requests the same global batches. The
/// samples of a batch are the same for any number of ranks; each rank has its share_of() them. Not
/// thread-safe.
class MUSTER_EXPORT Sampler {
 public:
  struct Batch {
    std::vector<std::uint64_t> samples;  ///< this rank's, each in [0, number of samples); may be empty
    std::uint64_t global = 0;            ///< samples of all ranks in this batch: the weight of an average
    SamplerPosition begin;               ///< position of the batch's first sample
  };

  /// `samples`: number of samples in the data set. `shuffle` false: every epoch is in the data set's order.
  /// @throws Error(ErrorCode::usage) when samples is 0, the position's offset above it, or rank not in [0,
  /// size).
  Sampler(std::uint64_t samples, int rank, int size, const SamplerPosition& position = {},
          bool shuffle = true);

  /// The next `global` samples, at least 1, or the rest of the epoch. The last batch of an epoch may be
  /// shorter, and some ranks may then have fewer samples or none. They take part in the step all the same.
  Batch next(std::uint64_t global);

  /// The sample at position `offset`, below samples(), in the order of `epoch`.
  std::uint64_t at(std::uint64_t epoch, std::uint64_t offset) const noexcept;
  std::uint64_t samples() const noexcept { return order_.count(); }
  /// Where the next batch begins; after the last batch of an epoch, that epoch's end.
  const SamplerPosition& position() const noexcept { return position_; }
  /// Number of epochs whose last batch was taken.
  std::uint64_t completed_epochs() const noexcept {
    return position_.epoch + (position_.offset == samples() ? 1 : 0);
  }

 private:
  Permutation order_;
  int rank_, size_;
  SamplerPosition position_;
  bool shuffle_;
};

}  // namespace muster
