// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "communicator/communicator_base.hpp"
#include "communicator/grouped_calls.hpp"
#include "communicator/nccl/cuda_library.hpp"
#include "communicator/nccl/nccl_library.hpp"
#include "deadline.hpp"

namespace muster::detail {

class NcclCommunicator;
class NcclWatchdog;

/// State that the NCCL communicators of a process share.
struct NcclState {
  CudaLibrary cuda;
  NcclLibrary nccl;
  CUcontext context = nullptr;         ///< the context of this rank's GPU
  bool open = true;                    ///< false after the job was left
  bool keep_on_failure = false;        ///< a failure aborts nothing: the world may be shrunk
  std::mutex mutex;                    ///< protects `all`
  std::vector<NcclCommunicator*> all;  ///< all that exist, to end them together
  /// Memory into which NCCL writes new communicators. NCCL's thread may write late, even after a failure, so
  /// it is never freed before this state.
  std::vector<std::shared_ptr<ncclComm_t>> slots;
  /// Set once a communicator has several ranks.
  std::unique_ptr<NcclWatchdog> watchdog;

  NcclState();
  ~NcclState();
  std::vector<NcclCommunicator*> open_communicators();

  /// Finalizes all communicators in order; their waits for other ranks run at the same time.
  void finalize_all(const Deadline& deadline) noexcept;
  /// Aborts these communicators at the same time, because the abort of one can wait for another's (nccl#549),
  /// and waits for all of them.
  void abort(const std::vector<NcclCommunicator*>& which) noexcept;
};

/// A communicator on GPU memory. It is initialised with NCCL's non-blocking calls, and every wait is bounded.
/// An error aborts all communicators of the process, because NCCL's kernels of one can wait for another's.
class NcclCommunicator : public CommunicatorBase, public std::enable_shared_from_this<NcclCommunicator> {
 public:
  /// Collective over the group.
  static std::shared_ptr<NcclCommunicator> init(std::shared_ptr<NcclState> state, CommunicatorGroup group,
                                                const Deadline& deadline);
  /// The communicator of `old`'s ranks without `lost`, ranks of `old`. Collective over the remaining ranks,
  /// which are `group`. Operations of `old` in flight are cancelled. The caller must abort `old`.
  static std::shared_ptr<NcclCommunicator> shrink(NcclCommunicator& old, CommunicatorGroup group,
                                                  const std::vector<int>& lost, const Deadline& deadline);
  ~NcclCommunicator() override;
  NcclCommunicator(const NcclCommunicator&) = delete;
  NcclCommunicator& operator=(const NcclCommunicator&) = delete;

  const char* backend() const noexcept override { return "nccl"; }

  void all_reduce(const void* in, void* out, std::size_t count, DataType type, Reduction op,
                  Stream stream) override;
  void reduce(void* buffer, std::size_t count, DataType type, Reduction op, int root, Stream stream) override;
  void broadcast(void* buffer, std::size_t count, DataType type, int root, Stream stream) override;
  void all_gather(const void* in, void* out, std::size_t count, DataType type, Stream stream) override;
  void all_gather_v(const void* in, void* out, std::span<const std::size_t> counts, DataType type,
                    Stream stream) override;
  void reduce_scatter(const void* in, void* out, std::size_t count, DataType type, Reduction op,
                      Stream stream) override;
  void all_to_all(const void* in, void* out, std::size_t count, DataType type, Stream stream) override;
  void send(const void* buffer, std::size_t count, DataType type, int to, Stream stream) override;
  void recv(void* buffer, std::size_t count, DataType type, int from, Stream stream) override;
  void barrier(Stream stream) override;
  std::shared_ptr<CommunicatorBackend> split(int color, int key) override;
  void synchronize(Stream stream) override { synchronize(stream, Deadline(group_.timeout())); }
  std::vector<std::vector<std::uint64_t>> host_all_gather(const char* what,
                                                          const std::vector<std::uint64_t>& mine) override;
  std::shared_ptr<CommStream> make_stream() override;

  /// Makes the GPU's context current; the calling thread need not be the one that joined.
  void make_context_current();
  /// Fails the job with `what` and CUDA's reason, unless `result` is success.
  void require_cuda(CUresult result, const char* what);
  /// Returns a handle, or null if NCCL cannot or does not register this memory, which it does not need.
  void* register_memory(void* memory, std::size_t bytes);
  void deregister_memory(void* handle) noexcept;

  void begin_group() override;
  void end_group() override;
  void discard_group() noexcept override { grouped_.discard(); }
  bool in_group() const noexcept override { return grouped_.open(); }

  /// Finalizes the communicator while its peers do the same, and aborts it when that takes too long. In three
  /// steps, so that several communicators can do each step at the same time.
  void begin_finalize() noexcept;
  void await_finalize(const Deadline& deadline) noexcept;
  std::optional<BackgroundCall> begin_destroy() noexcept;
  bool is_open() const noexcept { return comm_ != nullptr; }
  /// Starts to abort the communicator; nothing if it has ended. The caller waits.
  std::optional<BackgroundCall> begin_abort() noexcept;

  /// Called regularly by the watchdog while the program may wait for its operation in CUDA itself: warns of a
  /// stall, and reports NCCL's error or a passed deadline to the job. If the job has failed and the program
  /// has an on_loss callback, aborts, so that the program's wait returns. Does nothing while the program is
  /// in a call of this communicator, which then does all this itself.
  std::optional<BackgroundCall> poll();

 private:
  NcclCommunicator(std::shared_ptr<NcclState> state, CommunicatorGroup group);

  void require_open() const override;
  // Enqueues an operation of the whole group, or records it when calls are grouped. `call` returns NCCL's
  // result.
  template <typename Call>
  void collective(const char* operation, Stream stream, Call call);
  template <typename Call>
  void message(const char* operation, int peer, Stream stream, Call call);
  // Runs `calls` in one group of NCCL's and returns the result of the group.
  template <typename Calls>
  ncclResult_t in_nccl_group(Calls calls);
  // Begins an operation and enqueues it with NCCL.
  template <typename Begin, typename Call>
  void enqueue(Stream stream, Begin begin_operation, Call call);
  // Lets the watchdog monitor the last operation from here on.
  void hand_to_watchdog(Stream stream);
  void check_pending();
  std::shared_ptr<ncclComm_t> new_slot();
  void wait_until_ready(ncclResult_t result, const Deadline& deadline);
  // After a call: waits until NCCL has enqueued the operation (not until it is complete), within the
  // deadline.
  void wait_while_in_progress(ncclResult_t result, const Deadline& deadline) {
    wait_while_in_progress(comm_, result, deadline);
  }
  // `polled`: the communicator that reports NCCL's progress.
  void wait_while_in_progress(ncclComm_t polled, ncclResult_t result, const Deadline& deadline);
  void wait_while_in_progress(ncclResult_t result) {
    wait_while_in_progress(result, Deadline(group_.timeout()));
  }
  std::string reason(ncclResult_t result) const;
  // How long to wait for the control plane to name the lost rank after this error of NCCL.
  static std::chrono::milliseconds failure_name_grace(ncclResult_t result);
  [[noreturn]] void fail_nccl(ncclResult_t result);
  [[noreturn]] void fail_wait(const Deadline& deadline);
  template <typename Throw>
  [[noreturn]] void abort_all(Throw why);
  void allocate_token();
  // Runs the group's first collective, on a stream of its own, so that it does not wait for other work.
  void first_collective(const Deadline& deadline);
  void synchronize(Stream stream, const Deadline& deadline);
  void abort() noexcept;
  // Ends the communicator with `close` on another thread and frees its memory.
  std::optional<BackgroundCall> begin_close(decltype(::ncclCommAbort)* close) noexcept;

  // The operation that the program enqueued last, if the program does not wait for it in this class.
  struct Pending {
    Deadline deadline;
    std::unique_ptr<CommunicatorGroup::WaitScope> wait_scope;  // set at the first poll that finds it running
    std::optional<Deadline> error_grace;                       // runs since NCCL reported an error
    bool reported = false;
  };

  std::shared_ptr<NcclState> state_;
  // Held by the program's thread or the watchdog's while it uses the members below.
  std::recursive_mutex call_mutex_;
  ncclComm_t comm_ = nullptr;
  CUevent enqueued_ = nullptr;
  std::optional<Pending> pending_;
  Stream grouped_stream_ = nullptr;  // of the last operation in the group
  ncclResult_t finalize_result_ = ncclSuccess;
  CUdeviceptr token_ = 0;  // one float for the barrier
  GroupedCalls grouped_;   // each call stores NCCL's result in nccl_result_
  ncclResult_t nccl_result_ = ncclSuccess;
};

}  // namespace muster::detail
