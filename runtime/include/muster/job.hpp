// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "muster/communicator.hpp"
#include "muster/export.hpp"
#include "muster/metrics.hpp"
#include "muster/timings.hpp"

namespace muster {

namespace detail {
struct JobInternals;  // runtime/job/job_internals.hpp
}

/// Which memory this rank's world communicator works on.
enum class Device {
  automatic,  ///< the GPU that was placed for this rank (MUSTER_GPUS), else the CPU: without the plugin,
              ///< always the CPU
  cpu,        ///< host memory, whatever was placed
  cuda,       ///< a GPU: the placed one, else CUDA's device number local_rank; an error when there is none
};

struct JoinOptions {
  /// Bounds the whole join. When it passes, Error(ErrorCode::deadline) says what was awaited and which ranks
  /// are missing.
  std::chrono::milliseconds deadline{60'000};
  /// Bounds every later operation of a communicator; on a GPU from when it was enqueued.
  std::chrono::milliseconds operation_timeout{600'000};
  /// A rank whose process says nothing on the control plane for so long, being stopped or cut off, counts as
  /// lost; 0: never. A job that is suspended as a whole loses nobody.
  std::chrono::milliseconds heartbeat_timeout{10'000};
  Device device = Device::automatic;
  /// The job goes on when ranks are lost: Job::shrink() then makes it one of those that are left. Without it
  /// the ranks stay connected to the launcher's PMIx, and Slurm kills them all about a second after one has
  /// vanished, whatever srun's -K says; with it they leave PMIx once they have joined, and Muster alone looks
  /// after them (start with srun --kill-on-bad-exit=0). Host memory is then reduced over the control plane
  /// (backend "control-plane"), which is slow, since Open MPI keeps PMIx connected and cannot go on without a
  /// rank. The same on all ranks.
  bool tolerate_rank_loss = false;
  /// Whoever waits for so long in an operation is told of, in one line for the job on rank 0's stderr: which
  /// ranks have not entered it and what they did last; again after twice the time, and so on. 0: never.
  /// Of setting up a communicator not before 30 s. MUSTER_STALL_WARNING, in seconds, has precedence.
  std::chrono::milliseconds stall_warning{30'000};
  /// A process that calls nothing of Muster for so long after the job has failed, and so does not hear of it,
  /// is ended with the error's exit code; the library then says the job's one line. 0: never.
  std::chrono::milliseconds abort_grace{1'200};
};

/// What on_rank_lost() tells.
struct RankLoss {
  std::vector<int> ranks;  ///< those that are known to be lost; others may have gone with them
  std::string what;        ///< the job's one line about it
};

/// The one record that each rank puts up at join; the roster holds everybody's.
struct Hello {
  int rank = 0;
  int local_rank = 0;   ///< index among the ranks of the same host, in rank order
  std::string host;     ///< host name, as the job sees it
  std::string boot_id;  ///< /proc/sys/kernel/random/boot_id: equal on ranks that share a kernel
  std::string address;  ///< numeric IP address on which other hosts reach this rank
  long pid = 0;
  std::string gpu;             ///< PCI address of the placed GPU, empty when none was placed
  std::string gpu_uuid;        ///< as CUDA reports it, empty when CUDA was not asked
  std::string cpus;            ///< CPU list this process may run on, e.g. "0-3,8"
  std::string muster_version;  ///< of the runtime in this process
  std::string plugin_version;  ///< of the SPANK plugin that placed it (MUSTER_VERSION), empty when none did
  std::string nccl_version;    ///< of the NCCL library that was loaded, empty when none was
};

/// A process's membership in its job.
///
/// join() tries, in this order: PMIx (srun --mpi=pmix, mpirun, prterun); the variables of a Slurm step, with
/// TCP and MUNGE (srun --mpi=none or pmi2); RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT as torchrun sets
/// them, with MUSTER_KEY or on one host; else alone. It compares the sizes and ranks that these tell and
/// refuses to run as one of N separate jobs. MUSTER_LOG=debug traces each step to stderr. Without PMIx there
/// is no host communicator, since Open MPI needs it. One join() per process. Not thread-safe.
class MUSTER_EXPORT Job {
 public:
  /// @throws Error: environment (sizes or versions disagree, several tasks that cannot find or trust each
  /// other, what the preflight finds fatal), device (a GPU was placed but CUDA cannot use it), deadline
  /// (somebody is missing), lost_rank, system.
  static Job join(const JoinOptions& options = {});

  Job(Job&&) noexcept;
  Job& operator=(Job&&) noexcept;
  /// If leave() was not called: while an exception unwinds, or after an Error of this job, drops the
  /// connections at once, so that the others learn of it (they end without a word: the reason is this
  /// program's to say); else leaves as leave() does, and says nothing if that fails.
  ~Job();

  int rank() const noexcept;
  int size() const noexcept;
  int local_rank() const noexcept;
  int local_size() const noexcept;
  /// Index of this rank's host among the job's hosts, in order of their lowest rank.
  int host_index() const noexcept;
  int host_count() const noexcept;
  /// "pmix", "slurm", "address" or "alone".
  const char* bootstrap() const noexcept;
  /// All hellos, by rank; the same on every rank.
  const std::vector<Hello>& roster() const noexcept;
  /// True when world() works on GPU memory.
  bool on_gpu() const noexcept;

  /// All ranks: on NCCL when on_gpu(), else as host_world(). Built at the first call, which is collective;
  /// later calls return the same group.
  /// @throws Error: deadline (JoinOptions::deadline bounds it), lost_rank, device (CUDA or NCCL), as
  /// host_world().
  Communicator world();
  /// All ranks, on host memory, whatever world() is on: on Open MPI where PMIx starts it; else, and with
  /// tolerate_rank_loss, on the control plane (slow above some kilobytes); alone in a world of one. Built at
  /// the first call, which is collective.
  /// @throws Error: deadline, lost_rank, environment (an Open MPI that is finalized or counts other ranks),
  /// system.
  Communicator host_world();
  /// The ranks of this host, in the order of world(), which is split for it: on the same memory. Built at the
  /// first call, which is collective over all ranks of the job; later calls return the same group.
  Communicator intra_node();
  /// The ranks with this one's local rank, one of each host that has so many, in the order of hosts:
  /// intra_node()'s counterpart, for reductions in two steps. Built as intra_node() is.
  Communicator inter_node();

  /// What the phases up to here took on this rank. With MUSTER_LOG=info every rank says it in a line, with
  /// MUSTER_LOG=debug each phase at its end too.
  const Timings& timings() const noexcept;

  /// Every rank arrives or Error(ErrorCode::deadline) names the missing ones (rank, host, GPU). `name` is the
  /// same on all of them. Host side, over the control plane.
  void barrier(const std::string& name, std::chrono::milliseconds deadline = std::chrono::seconds(60));

  /// `save` is called once when a rank was lost: by this rank's next call of Muster, or by the one that it
  /// waits in, on the thread that made it (a Reducer's own may be it) and right before the call throws
  /// Error(ErrorCode::lost_rank). It may do anything but call this job and its communicators; what it throws
  /// is printed and forgotten. When it has not returned `deadline` after the loss, the process is ended with
  /// exit code 75. Without tolerate_rank_loss Slurm leaves it about a second. Replaces the call given before;
  /// after shrink() it stands for the next loss.
  void on_rank_lost(std::function<void(const RankLoss&)> save,
                    std::chrono::milliseconds deadline = std::chrono::seconds(30));

  /// After Error(ErrorCode::lost_rank): the ranks that are left become the job, in their old order, with new
  /// numbers; rank(), size(), local_rank(), host_index() and roster() change. world() and host_world() make
  /// new communicators; old ones and what was split from them must not be used any more. Collective over the
  /// ranks that are left, also when rank 0 is not among them; returns when all have come whose process still
  /// runs and can be reached. Ranks that are cut off from each other do not go on twice: those that are left
  /// must be more than half of all but the ones that are certain to have ended, or half of them with the
  /// lowest rank.
  /// @throws Error: usage (without tolerate_rank_loss, or when nobody was lost), lost_rank (too few are
  /// left), deadline.
  void shrink(std::chrono::milliseconds deadline = std::chrono::seconds(60));

  /// Runs `section` on rank 0 while the other ranks wait for it: to write a checkpoint, to download data.
  /// What it throws is thrown on every rank as one Error, which rank 0 says, and the job goes on for whom
  /// catches it; an exception that is no Error counts as ErrorCode::system. `section` must not call on other
  /// ranks.
  /// @throws Error(ErrorCode::deadline) on all ranks when rank 0 is not done by then.
  void on_rank_0(const std::string& name, const std::function<void()>& section,
                 std::chrono::milliseconds deadline = std::chrono::minutes(10));

  /// What this rank's communicators did so far. Thread-safe.
  RankMetrics metrics() const;
  /// The same of another rank, which its control plane's thread tells whatever its program does. Thread-safe.
  /// @throws Error: usage, deadline (the rank does not answer; the job goes on), or the failure of the job.
  RankMetrics metrics_of(int rank, std::chrono::milliseconds wait = std::chrono::seconds(2)) const;

  /// Waits for the others (bounded by the join deadline), closes communicators and connections. The job is
  /// over for this process; a second call does nothing.
  /// @throws Error: deadline (who has not come is named), lost_rank.
  void leave();

  /// Ends the membership at once because this rank cannot go on for a reason of its own, which the program
  /// says: the other ranks learn that it has gone and end without a word. Nothing after leave().
  void abort() noexcept;

 private:
  struct State;
  friend struct detail::JobInternals;
  explicit Job(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace muster
