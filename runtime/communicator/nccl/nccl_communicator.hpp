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

/// What the NCCL communicators of a process share.
struct NcclState {
  CudaLibrary cuda;
  NcclLibrary nccl;
  CUcontext context = nullptr;  ///< of this rank's GPU
  bool open = true;             ///< false once the job was left
  bool survives = false;        ///< a failure aborts nothing: the communicators may be made smaller
  std::mutex mutex;             ///< of `all`
  std::vector<NcclCommunicator*> all;       ///< those that live, so that all can be ended together
  /// Where NCCL puts new communicators. Its thread may write there late, also after a failure: they stay.
  std::vector<std::shared_ptr<ncclComm_t>> slots;
  /// Once there is a communicator of several ranks.
  std::unique_ptr<NcclWatchdog> watch;

  NcclState();
  ~NcclState();
  std::vector<NcclCommunicator*> living();

  /// Ends all communicators in order, all at once as far as they wait for other ranks.
  void finish_all(const Deadline& deadline) noexcept;
  /// Aborts these communicators at once (one can wait for another's, nccl#549) and waits for all together.
  void abort(const std::vector<NcclCommunicator*>& which) noexcept;
};

/// A communicator on GPU memory. Initialisation and every wait are non-blocking underneath and bounded; an
/// error aborts all of the process's communicators, since NCCL's kernels of one can wait for another's.
class NcclCommunicator : public GroupCollectives, public std::enable_shared_from_this<NcclCommunicator> {
 public:
  /// Collective over the group.
  static std::shared_ptr<NcclCommunicator> init(std::shared_ptr<NcclState> state, CommunicatorGroup group, const Deadline& deadline);
  /// What is left of `old` without `lost`, ranks of it. Collective over those that are left, which are
  /// `group`; what the lost ones were to take part in is given up. `old` stays to be aborted.
  static std::shared_ptr<NcclCommunicator> shrink(NcclCommunicator& old, CommunicatorGroup group, const std::vector<int>& lost,
                                      const Deadline& deadline);
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
  std::vector<std::vector<std::uint64_t>> tell_all(const char* what,
                                                   const std::vector<std::uint64_t>& mine) override;
  std::shared_ptr<CommStream> make_stream() override;

  /// The calling thread may be another than the one that joined.
  void make_context_current();
  /// What CUDA refused ends the job, with `what`.
  void require_cuda(CUresult result, const char* what);
  /// A handle, or null where NCCL cannot or will not register this memory: it works without.
  void* register_memory(void* memory, std::size_t bytes);
  void deregister_memory(void* handle) noexcept;

  void begin_group() override;
  void end_group() override;
  void drop_group() noexcept override { grouped_.drop(); }
  bool in_group() const noexcept override { return grouped_.open(); }

  /// Ends the communicator in order, its peers doing the same; aborts it when that takes longer. In three
  /// steps, so that several communicators can go through each together.
  void begin_finish() noexcept;
  void await_finish(const Deadline& deadline) noexcept;
  std::optional<BackgroundCall> begin_destroy() noexcept;
  bool is_open() const noexcept { return comm_ != nullptr; }
  /// Begins to abort the communicator; nothing when it has ended. The caller waits.
  std::optional<BackgroundCall> begin_abort() noexcept;

  /// By the watch, now and then, in place of a program that waits in CUDA itself for what it enqueued: warns
  /// of a stall, tells the job what NCCL reports meanwhile and what does not end. When the job has failed and
  /// its program wants to be told of a loss, aborts, so that the program comes back from there. Nothing while
  /// the program is in a call of this communicator, which then does all this.
  std::optional<BackgroundCall> look_after();

 private:
  NcclCommunicator(std::shared_ptr<NcclState> state, CommunicatorGroup group);

  void require_open() const override;
  // Enqueues an operation of the whole group, or keeps it when calls are grouped. `call` returns what NCCL
  // said.
  template <typename Call>
  void collective(const char* operation, Stream stream, Call call);
  template <typename Call>
  void message(const char* operation, int peer, Stream stream, Call call);
  // NCCL's answer to several calls as one.
  template <typename Calls>
  ncclResult_t as_one(Calls calls);
  // Enters an operation and hands it to NCCL.
  template <typename Enter, typename Call>
  void enqueue(Stream stream, Enter enter, Call call);
  // What was enqueued last is the watch's from here on.
  void leave_to_watch(Stream stream);
  void look_at_pending();
  std::shared_ptr<ncclComm_t> new_slot();
  void wait_until_ready(ncclResult_t result, const Deadline& deadline);
  // After a call: waits until NCCL has taken the operation (not until it is done), under the deadline.
  void accept(ncclResult_t result, const Deadline& deadline) { accept(comm_, result, deadline); }
  // `shown_by`: the communicator that tells how far NCCL is.
  void accept(ncclComm_t shown_by, ncclResult_t result, const Deadline& deadline);
  void accept(ncclResult_t result) { accept(result, Deadline(group_.timeout())); }
  std::string reason(ncclResult_t result) const;
  // How long the control plane may take to name the rank whose end NCCL reports.
  static std::chrono::milliseconds moment_for_names(ncclResult_t result);
  [[noreturn]] void give_up(ncclResult_t result);
  [[noreturn]] void give_up_waiting(const Deadline& deadline);
  template <typename Throw>
  [[noreturn]] void abort_all(Throw why);
  void allocate_token();
  // Of the group; on a stream of its own, so that it waits for nobody's work.
  void first_collective(const Deadline& deadline);
  void synchronize(Stream stream, const Deadline& deadline);
  void abort() noexcept;
  // Ends the communicator with `how` on another thread and frees what belongs to it.
  std::optional<BackgroundCall> begin_end(decltype(::ncclCommAbort)* how) noexcept;

  // What the program enqueued last and does not wait for here.
  struct Pending {
    Deadline deadline;
    std::unique_ptr<CommunicatorGroup::Inside> inside;  // once it does not end at once
    std::optional<Deadline> wrong;          // since NCCL reported an error
    bool told = false;
  };

  std::shared_ptr<NcclState> state_;
  std::recursive_mutex in_use_;  // by the program's thread in all that follows, or by the watch's
  ncclComm_t comm_ = nullptr;
  CUevent enqueued_ = nullptr;
  std::optional<Pending> pending_;
  Stream grouped_stream_ = nullptr;  // of the last operation in the group
  ncclResult_t finishing_ = ncclSuccess;
  CUdeviceptr token_ = 0;  // one float for the barrier
  GroupedCalls grouped_;   // each leaves what NCCL said in said_
  ncclResult_t said_ = ncclSuccess;
};

}  // namespace muster::detail
