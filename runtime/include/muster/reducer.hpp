// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "muster/communicator.hpp"
#include "muster/export.hpp"
#include "muster/sampler.hpp"

namespace muster {

struct ReducerOptions {
  /// sum, or average: over the ranks, or, with `chunks`, over the chunks.
  Reduction reduction = Reduction::average;
  /// Gradients of one bucket, at least; 0: from a measurement at construction, a few all-reduces of 4 KiB and
  /// 4 MiB, as sqrt(latency * bandwidth * bytes of all gradients) (runtime/reducer/bucket_size.hpp derives
  /// it). MUSTER_BUCKET_BYTES in rank 0's environment comes before both.
  std::size_t bucket_bytes = 0;
  /// Gradients travel as bfloat16 and are added in float32 in the order of ranks. Halves the traffic. With
  /// u = 2^-8 and S = sum over ranks of |gradient|, the result of n ranks is off by at most
  /// u S (gradients rounded) + (n - 1) 2^-24 (1 + u) S (additions) + u |result| (rounded for its way back).
  /// Every rank gets the same bits; alone nothing is rounded. On GPU memory the bits are those of host
  /// memory, but for NaNs. NCCL only carries them there: its own sum of bfloat16 rounds each partial sum to
  /// bfloat16 (__hadd2; float32 only inside an NVSwitch), which is no float32 accumulation. So this and
  /// `chunks` need kernels on "nccl"; a build without nvcc has none (`muster check-build`) and refuses both
  /// there with Error(ErrorCode::usage).
  bool bfloat16 = false;
  /// Above 0: the deterministic mode. The global batch is cut into so many chunks, and the gradients are
  /// added in a fixed binary tree over chunk numbers, whatever rank has them: results are byte-identical for
  /// any number of ranks, even or not, provided that each chunk's gradient is; on GPU memory the same as on
  /// host memory, but for NaNs. Takes as much memory again as the gradients, for each sum of this rank's
  /// chunks that has to wait for others: once to 2 log2(chunks of this rank) + 1 times.
  std::uint64_t chunks = 0;
  /// False: buckets are reduced one after the other in finish(). For comparison.
  bool overlap = true;
};

/// Of one step, on this rank.
struct ReducerStatistics {
  std::uint64_t step = 0;    ///< steps that were finished; the last one is described
  std::size_t buckets = 0;   ///< that were reduced
  std::size_t bytes = 0;     ///< of gradients, in the type in which they travelled
  double communication = 0;  ///< seconds in which buckets were being reduced
  double exposed = 0;        ///< seconds of it that were not hidden: how long finish() waited, or its stream
};

/// Reduces gradients over a communicator while the backward pass goes on.
///
/// Gradients are float32; spans of another type do not compile. They can travel as bfloat16
/// (ReducerOptions::bfloat16). A program with gradients of another type converts them, or sums them with
/// Communicator::all_reduce(), which takes every DataType.
///
/// The parameters are numbered in forward order. The backward pass calls ready(i) as soon as the gradient of
/// parameter i is complete, usually from the last to the first; when all gradients of a bucket are, its
/// reduction starts: on host memory in a thread of the reducer's own, on GPU memory on a CUDA stream of its
/// own, both on a communicator of their own. finish() waits for the rest; then every gradient is the sum or
/// average over all ranks, in place and with the same bits on every rank. Between ready(i) and finish()
/// gradient i must not be touched. Every rank has the same parameters and options, and between two finish()
/// makes each parameter ready once.
///
/// In deterministic mode it does so once for each of its chunks, in the order of chunks; when all parameters
/// are ready for one chunk, the gradients are free for the next. On GPU memory they are added on the
/// reducer's stream, and each stream that was given for this chunk waits for that with what is enqueued on it
/// after the last ready(). A program that writes gradients on the streams that it gives need not do more;
/// another stream has to wait for one of these, by an event that is recorded there after the last ready().
///
/// An error of a reduction, such as a lost rank, is thrown by the next call; the reducer is of no use after.
/// Destroy it before Job::leave(). Not thread-safe, but the communicator that it was given can be used at the
/// same time.
class MUSTER_EXPORT Reducer {
 public:
  /// With gradient memory of its own, on host or GPU as the communicator's: one block in forward order, so
  /// that every bucket is reduced where it lies; on GPU from ncclMemAlloc and registered with
  /// ncclCommRegister where NCCL has them. `sizes`: elements of each parameter, 4 bytes each; gradient(i) is
  /// where its gradient goes. Zero at first. Collective.
  /// @throws Error(ErrorCode::usage) when ranks have different sizes or options, or none at all.
  Reducer(const Communicator& world, std::span<const std::size_t> sizes, const ReducerOptions& options = {});
  /// With the caller's memory, which outlives the reducer. A bucket whose gradients lie side by side in
  /// forward order, as in one arena, is reduced where it lies; others are copied together and back.
  /// Collective.
  Reducer(const Communicator& world, std::span<const std::span<float>> gradients,
          const ReducerOptions& options = {});
  /// Waits for what was started; while an exception unwinds, cuts it off instead: the gradients' memory may
  /// then be written to until the process ends.
  ~Reducer();
  Reducer(Reducer&&) noexcept;
  Reducer& operator=(Reducer&&) = delete;

  /// Bytes that a reducer with `chunks` asks for beside the gradients, on `rank` of `ranks`, before there is
  /// one. options.bucket_bytes above 0: a measured size is not known before.
  static std::size_t memory_bytes(std::span<const std::size_t> sizes, const ReducerOptions& options, int rank,
                                  int ranks);

  /// Where this parameter's gradient goes, and after finish() comes from.
  /// @throws Error(ErrorCode::usage) when `parameter` is not below parameters().
  std::span<float> gradient(std::size_t parameter) const;
  std::size_t parameters() const noexcept;

  /// The gradient of this parameter is complete: on host memory now, on GPU memory once what is enqueued on
  /// `stream` is done, which may be another for each parameter and lives until finish(). Does not wait.
  /// @throws Error(ErrorCode::usage) when there is no such parameter or it was ready already; what ended the
  /// reductions.
  void ready(std::size_t parameter, Stream stream = nullptr);
  /// Ends the step. On host memory it waits until the gradients are reduced; on GPU memory what is enqueued
  /// on `stream` from now on waits, not the host: communicator.synchronize(stream) tells errors.
  /// @throws Error(ErrorCode::usage) when a parameter is not ready; what ended the reductions.
  void finish(Stream stream = nullptr);

  /// In deterministic mode the chunks of this rank, share_of() them; else [rank, rank + 1).
  Share chunks() const noexcept;
  std::size_t buckets() const noexcept;
  /// What was measured or asked for.
  std::size_t bucket_bytes() const noexcept;
  /// Of the last step; on GPU memory of the last one whose work is known to be done.
  ReducerStatistics last_step() const;
  /// Of the step with this number, which is the last one or, for a program that enqueues a step on the GPU
  /// before it looks at the one before, that one, until the first gradient of another is ready. Nothing of
  /// others, and while its work is not known to be done.
  std::optional<ReducerStatistics> step(std::uint64_t number) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace muster
