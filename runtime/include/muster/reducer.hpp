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
  /// sum, or average: over the ranks, or with `chunks` over the chunks.
  Reduction reduction = Reduction::average;
  /// Minimum size of one bucket. 0: sqrt(latency * bandwidth * bytes of all gradients), measured at
  /// construction by a few all-reduces of 4 KiB to 4 MiB (runtime/reducer/bucket_size.hpp derives it).
  /// MUSTER_BUCKET_BYTES in rank 0's environment has precedence over both.
  std::size_t bucket_bytes = 0;
  /// Gradients are sent as bfloat16 and added in float32 in the order of ranks. This halves the traffic. With
  /// u = 2^-8 and S = sum over ranks of |gradient|, the error of the result of n ranks is at most
  /// u S (rounding of gradients) + (n - 1) 2^-24 (1 + u) S (additions) + u |result| (rounding for the way
  /// back). Every rank gets the same bits. A single rank rounds nothing. Nor do ranks of one host that share
  /// host memory: nothing is sent there, and float32 is as fast. On GPU memory the bits are those of
  /// other host memory, except for NaNs. There NCCL only carries the data: its own sum of bfloat16 rounds
  /// each partial sum to bfloat16 (__hadd2; float32 only inside an NVSwitch), so it does not accumulate in
  /// float32. Therefore this and `chunks` need kernels on "nccl". A build without nvcc has none (`muster
  /// check-build`) and throws Error(ErrorCode::usage) for both there.
  bool bfloat16 = false;
  /// Above 0: the deterministic mode. The global batch is cut into this number of chunks, and gradients are
  /// added in a fixed binary tree over chunk numbers, on whatever ranks the chunks are. Results are
  /// byte-identical for any number of ranks, even or odd, provided that each chunk's gradient is. GPU memory
  /// gives the same bits as host memory, except for NaNs. It needs additional memory of the size of all
  /// gradients for each partial sum that waits for another: 1 to 2 log2(chunks of this rank) + 1 times.
  std::uint64_t chunks = 0;
  /// False: buckets are reduced one after the other in finish(). For comparison.
  bool overlap = true;
  /// Type of the gradients that the reducer allocates: float32, float64 or bfloat16.
  DataType type = DataType::float32;
};

/// Statistics of one step on this rank.
struct ReducerStatistics {
  std::uint64_t step = 0;    ///< number of finished steps; the rest describes the last of them
  std::size_t buckets = 0;   ///< number of reduced buckets
  std::size_t bytes = 0;     ///< bytes of gradients, in the type in which they were sent
  double communication = 0;  ///< seconds in which buckets were being reduced
  double exposed = 0;        ///< seconds of that not hidden: time that finish() or its stream waited
};

/// Reduces gradients over a communicator during the backward pass.
///
/// Gradients are float32, float64 or bfloat16; spans of another type do not compile. float32 gradients can be
/// sent as bfloat16 (ReducerOptions::bfloat16). bfloat16 gradients are always added that way, in float32 and
/// with one rounding of the result. The deterministic mode takes float32 only.
///
/// Parameters are numbered in forward order. The backward pass calls ready(i) as soon as the gradient of
/// parameter i is complete, usually from the last to the first. When all gradients of a bucket are ready, its
/// reduction starts: on host memory in the reducer's own thread, on GPU memory on the reducer's own CUDA
/// stream, both on the reducer's own communicator. finish() waits for the rest. Then every gradient is the
/// sum or average over all ranks, in place and with the same bits on every rank. Between ready(i) and
/// finish() gradient i must not be touched. Every rank has the same parameters and options, and calls ready()
/// once for each parameter between two finish().
///
/// In deterministic mode each parameter is made ready once for each of the rank's chunks, in the order of
/// chunks. When all parameters are ready for one chunk, the gradients are free for the next. On GPU memory
/// they are added on the reducer's stream, and each stream that was given for this chunk waits for that with
/// the work enqueued on it after the last ready(). A program that writes gradients only on these streams need
/// not do more. Another stream has to wait for one of them, by an event recorded there after the last
/// ready().
///
/// The next call throws the error of a reduction, such as a lost rank; the reducer is unusable after it.
/// Destroy it before Job::leave(). Not thread-safe, but the communicator given to it can be used at the same
/// time.
class MUSTER_EXPORT Reducer {
 public:
  /// A reducer with its own gradient memory, on host or GPU like the communicator's: one block in forward
  /// order, so that every bucket is reduced in place. On GPUs it is allocated by ncclMemAlloc, and registered
  /// as a symmetric window (NCCL 2.27 and later) or else by ncclCommRegister, where NCCL can. `sizes`: number
  /// of elements of each parameter, of options.type. gradient<T>(i) is the memory for gradient i, zero at
  /// first. Collective.
  /// @throws Error(ErrorCode::usage) when ranks have different sizes or options, or no parameters, or for
  /// options that exclude each other.
  Reducer(const Communicator& world, std::span<const std::size_t> sizes, const ReducerOptions& options = {});
  /// A reducer on the caller's memory, which must outlive it. A bucket whose gradients lie side by side in
  /// forward order, as in one arena, is reduced in place; other buckets are copied together and back. The
  /// spans' type is the gradients', and options.type is ignored. Collective.
  Reducer(const Communicator& world, std::span<const std::span<float>> gradients,
          const ReducerOptions& options = {});
  Reducer(const Communicator& world, std::span<const std::span<double>> gradients,
          const ReducerOptions& options = {});
  Reducer(const Communicator& world, std::span<const std::span<bfloat16>> gradients,
          const ReducerOptions& options = {});
  /// Waits for running reductions. While an exception unwinds, it aborts them instead: the gradients' memory
  /// may then be written to until the process ends.
  ~Reducer();
  Reducer(Reducer&&) noexcept;
  Reducer& operator=(Reducer&&) = delete;

  /// Bytes that a reducer of float32 gradients with `chunks` would allocate in addition to the gradients, on
  /// `rank` of `ranks`. options.bucket_bytes must be above 0, since a measured size is not known before
  /// construction.
  static std::size_t memory_bytes(std::span<const std::size_t> sizes, const ReducerOptions& options, int rank,
                                  int ranks);

  /// The memory of this parameter's gradient: its input before ready(), its result after finish().
  /// @throws Error(ErrorCode::usage) when `parameter` is not below parameters(), or T is not the gradients'
  /// type.
  template <typename T = float>
  std::span<T> gradient(std::size_t parameter) const {
    require_type(DataTypeOf<T>::value);
    auto const bytes = gradient_bytes(parameter);
    return {reinterpret_cast<T*>(bytes.data()), bytes.size() / sizeof(T)};
  }
  /// The same without a type.
  std::span<std::byte> gradient_bytes(std::size_t parameter) const;
  std::size_t parameters() const noexcept;
  /// The gradients' type.
  DataType type() const noexcept;

  /// Marks the gradient of this parameter as complete: on host memory now, on GPU memory once the work
  /// enqueued on `stream` is done. The stream may differ between parameters and must exist until finish().
  /// Does not wait.
  /// @throws Error(ErrorCode::usage) when there is no such parameter or it was ready already; the error that
  /// ended the reductions.
  void ready(std::size_t parameter, Stream stream = nullptr);
  /// Ends the step. On host memory it waits until the gradients are reduced. On GPU memory the host does not
  /// wait, only work enqueued on `stream` after this call: communicator.synchronize(stream) throws the
  /// errors.
  /// @throws Error(ErrorCode::usage) when a parameter is not ready; the error that ended the reductions.
  void finish(Stream stream = nullptr);

  /// In deterministic mode the chunks of this rank, by share_of(); else [rank, rank + 1).
  Share chunks() const noexcept;
  std::size_t buckets() const noexcept;
  /// The bucket size, measured or given.
  std::size_t bucket_bytes() const noexcept;
  /// Statistics of the last step; on GPU memory, of the last step that is known to be complete.
  ReducerStatistics last_step() const;
  /// Statistics of step `number`: of the last step, or of the one before, for a program that enqueues a step
  /// on the GPU before it reads the previous one's statistics. They are kept until the first gradient of
  /// another step is ready. Empty for other steps, and while the step is not known to be complete.
  std::optional<ReducerStatistics> step(std::uint64_t number) const;

 private:
  void require_type(DataType type) const;

  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace muster
