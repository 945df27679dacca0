// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "muster/communicator.hpp"
#include "muster/export.hpp"
#include "muster/metrics.hpp"
#include "muster/store.hpp"
#include "muster/timings.hpp"

namespace muster {

namespace detail {
struct JobInternals;  // runtime/job/job_internals.hpp
struct JobState;      // runtime/job/job_state.hpp
}  // namespace detail

/// Which memory this rank's world communicator works on.
enum class Device {
  automatic,  ///< the GPU placed for this rank (MUSTER_GPUS), else the CPU (always, without the plugin)
  cpu,        ///< host memory, even when a GPU was placed
  cuda,       ///< the placed GPU, else CUDA device number local_rank, with JoinOptions::cpu_ranks not
              ///< counted; an error when there is none
};

struct JoinOptions {
  /// Limits the whole join. After it, Error(ErrorCode::deadline) names the wait and the missing ranks.
  std::chrono::milliseconds deadline{60'000};
  /// Limits every later operation of a communicator, from its call. On a GPU the call enqueues it.
  std::chrono::milliseconds operation_timeout{600'000};
  /// A rank whose process sends nothing on the control plane for so long is lost: it is stopped or cut off.
  /// 0: never. A job that is suspended as a whole loses no rank.
  std::chrono::milliseconds heartbeat_timeout{10'000};
  Device device = Device::automatic;
  /// The job can go on when ranks are lost: Job::shrink() continues it with the remaining ranks. Without it
  /// the ranks stay connected to the launcher's PMIx, and Slurm kills all of them about a second after one
  /// disappears, whatever srun's -K says. With it they disconnect from PMIx once they have joined, and only
  /// Muster monitors them (start with srun --kill-on-bad-exit=0). Reductions of host memory then run in
  /// shared memory where all ranks are on one host, and else over the control plane, which is slow (backend
  /// "control-plane"): Open MPI keeps PMIx connected and cannot continue without a rank. Must be equal on all
  /// ranks.
  bool tolerate_rank_loss = false;
  /// After this long in one operation, rank 0 prints one line to stderr: the ranks that have not entered the
  /// operation, and their last call. It repeats after 2×, 4×, … that time. 0: never. Communicator set-up
  /// warns after 30 s at the earliest. MUSTER_STALL_WARNING, in seconds, has precedence.
  std::chrono::milliseconds stall_warning{30'000};
  /// A process that calls nothing of Muster does not notice a failure of the job. This long after the failure
  /// the library ends the process with the error's exit code. It prints the job's one line earlier, 0.3 s
  /// after the failure, because Slurm kills the step about a second after a loss. A call of Muster in between
  /// throws the error as reported_elsewhere(). 0: neither.
  std::chrono::milliseconds abort_grace{1'200};
  /// The first so many ranks use no GPU, whatever `device` says: ranks that only serve the others. Above 0,
  /// world() works on host memory on all ranks, and a GPU is for the program alone. Must be equal on all
  /// ranks.
  int cpu_ranks = 0;
};

/// The argument of on_rank_lost()'s function.
struct RankLoss {
  std::vector<int> ranks;  ///< the ranks known to be lost; others may be lost too
  std::string what;        ///< the job's one line about it
};

/// What each rank publishes about itself at join. The roster holds the hellos of all ranks.
struct Hello {
  int rank = 0;
  int local_rank = 0;   ///< index among the ranks of the same host, in rank order
  std::string host;     ///< host name, as the job sees it
  std::string boot_id;  ///< /proc/sys/kernel/random/boot_id: equal on ranks that share a kernel
  std::string address;  ///< numeric IP address on which other hosts reach this rank
  long pid = 0;
  std::string gpu;             ///< PCI address of the placed GPU, empty when no GPU was placed
  std::string gpu_uuid;        ///< as CUDA reports it, empty when CUDA was not queried
  std::string cpus;            ///< CPU list this process may run on, e.g. "0-3,8"
  std::string muster_version;  ///< version of the runtime in this process
  std::string plugin_version;  ///< version of the SPANK plugin that placed it (MUSTER_VERSION), else empty
  std::string nccl_version;    ///< version of the loaded NCCL library, empty when none was loaded
};

/// This process as a rank of its job.
///
/// join() tries these bootstraps in this order: PMIx (srun --mpi=pmix, mpirun, prterun); the variables of a
/// Slurm step, with TCP and MUNGE (srun --mpi=none or pmi2); RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT as
/// torchrun sets them, with MUSTER_KEY or on one host; else a job of one rank. It compares the sizes and
/// ranks that these sources give, and refuses to run as one of N separate jobs. MUSTER_LOG=debug traces each
/// step to stderr. Without PMIx there is no Open MPI communicator, since Open MPI needs PMIx. One join() per
/// process. Not thread-safe.
class MUSTER_EXPORT Job {
 public:
  /// @throws Error: environment (sizes or versions disagree, the ranks of several tasks cannot find or trust
  /// each other, the preflight has a fatal finding), device (a GPU was placed but CUDA cannot use it),
  /// deadline (a rank is missing), lost_rank, system.
  static Job join(const JoinOptions& options = {});

  /// Makes this process the rank of a running job for which grow() made `invitation`. The options are those
  /// of the other ranks. bootstrap() is "invitation".
  /// @throws Error: usage (no invitation), deadline (the job grew without this process), as join() does.
  static Job join(const JoinOptions& options, const std::string& invitation);

  Job(Job&&) noexcept;
  Job& operator=(Job&&) noexcept;
  /// Without leave() before: while an exception unwinds, or after an Error of this job, it closes the
  /// connections at once, so that the other ranks notice. They end without a message, because this program
  /// prints the reason. Otherwise it leaves as leave() does. If that fails on the rank that reports the
  /// failure, the destructor prints the job's line.
  ~Job();

  int rank() const noexcept;
  int size() const noexcept;
  int local_rank() const noexcept;
  int local_size() const noexcept;
  /// Index of this rank's host among the job's hosts, in order of their lowest rank.
  int host_index() const noexcept;
  int host_count() const noexcept;
  /// "pmix", "slurm", "address", "alone" or "invitation".
  const char* bootstrap() const noexcept;
  /// All hellos, by rank; the same on every rank.
  const std::vector<Hello>& roster() const noexcept;
  /// True when this rank has a GPU. world() works on its memory, except with JoinOptions::cpu_ranks.
  bool on_gpu() const noexcept;

  /// All ranks: on NCCL when the job is on GPUs without JoinOptions::cpu_ranks, else as host_world(). Built
  /// by the first call, which is collective; later calls return the same group.
  /// @throws Error: deadline (JoinOptions::deadline limits it), lost_rank, device (CUDA or NCCL), or as
  /// host_world().
  Communicator world();
  /// All ranks, on host memory, whatever memory world() uses: on Open MPI where PMIx starts it; else, and
  /// with tolerate_rank_loss, on the control plane (above some kilobytes slow, unless all ranks are on one
  /// host); "alone" in a world of one.
  /// Built by the first call, which is collective.
  /// @throws Error: deadline, lost_rank, environment (Open MPI is finalized or has another number of ranks),
  /// system.
  Communicator host_world();
  /// The ranks of this host, in the order of world(). It is split from world() and uses the same memory.
  /// Built by the first call, which is collective over all ranks of the job; later calls return the same
  /// group.
  Communicator intra_node();
  /// The ranks that have this one's local rank, at most one a host, in the order of hosts. It is
  /// intra_node()'s counterpart for reductions in two steps, and is built in the same way.
  Communicator inter_node();

  /// Time that this rank spent in each phase so far. With MUSTER_LOG=info every rank logs it in one line,
  /// with MUSTER_LOG=debug also each phase when it ends.
  const Timings& timings() const noexcept;

  /// Returns when every rank has called it, else Error(ErrorCode::deadline) names the missing ranks (rank,
  /// host, GPU). `name` is the same on all ranks. On the host side, over the control plane.
  void barrier(const std::string& name, std::chrono::milliseconds deadline = std::chrono::seconds(60));

  /// The job's key-value store. Thread-safe while neither shrink(), grow() nor leave() runs. shrink() and
  /// grow() make a new store, which is empty.
  Store store();

  /// `save` is called once after a rank was lost: by this rank's next call of Muster, or by the call in which
  /// it waits, on that call's thread, right before the call throws Error(ErrorCode::lost_rank). It may do
  /// anything except call this job and its communicators. An exception from it is printed and dropped. If it
  /// does not return within `deadline` after the loss, or JoinOptions::abort_grace if that is longer, the
  /// process ends with exit code 75. With JoinOptions::abort_grace 0 the deadline counts from the call of
  /// `save`. Without tolerate_rank_loss Slurm leaves it about a second. A later call replaces `save`. After
  /// shrink() it is called again for the next loss.
  void on_rank_lost(std::function<void(const RankLoss&)> save,
                    std::chrono::milliseconds deadline = std::chrono::seconds(30));

  /// Collective, while no operation runs. From now on the loss of one of `ranks` does not end the job: rank 0
  /// prints one line and the other ranks go on with their numbers and communicators. Operations of a
  /// communicator on the backend "control-plane" leave a lost rank out: reductions are over the other ranks,
  /// and all_gather() leaves its part of the result unchanged; a barrier and a broadcast from another rank go
  /// on as well. The loss of a host's first rank is the loss of all ranks of that host, except on rank 0's
  /// host. Other losses end the job as before.
  /// @throws Error: usage (without tolerate_rank_loss, for rank 0 and for ranks that do not exist), deadline.
  void survive_loss_of(std::span<const int> ranks,
                       std::chrono::milliseconds deadline = std::chrono::seconds(60));
  /// The ranks that were lost since, in increasing order. Thread-safe while neither shrink(), grow() nor
  /// leave() runs.
  std::vector<int> lost_ranks() const;

  /// After Error(ErrorCode::lost_rank): continues the job with the remaining ranks, in their old order, with
  /// new numbers. rank(), size(), local_rank(), host_index() and roster() change. world() and host_world()
  /// make new communicators; the old ones, and those split from them, must not be used any more. Collective
  /// over the remaining ranks, also when rank 0 is lost. Returns when every rank has called it whose process
  /// still runs and can be reached. Two groups of ranks that are cut off from each other cannot both
  /// continue: of all ranks except those that have certainly ended, more than half must remain, or half of
  /// them with the lowest rank.
  /// @throws Error: usage (without tolerate_rank_loss, or when no rank is lost), lost_rank (too few ranks
  /// remain), deadline.
  void shrink(std::chrono::milliseconds deadline = std::chrono::seconds(60));

  /// Adds `count` processes, which run already, as the last ranks of the job. On rank 0 `invite` gets one
  /// invitation for each of them, which it hands over; the process passes it to join(). It is secret: who has
  /// it can join. On the other ranks the arguments are not used, apart from the deadline. Afterwards
  /// roster(), size() and the communicators are new, as after shrink(), and the old ranks keep their numbers.
  /// Collective over the job, while no operation runs.
  /// @throws Error: usage (without tolerate_rank_loss), lost_rank (shrink() can follow), or deadline and
  /// system when not all processes came: then the job goes on as before.
  void grow(int count, const std::function<void(const std::vector<std::string>& invitations)>& invite,
            std::chrono::milliseconds deadline = std::chrono::seconds(60));

  /// Runs `section` on rank 0 while the other ranks wait, for example to write a checkpoint or download data.
  /// An exception from it is thrown on every rank as one Error. Rank 0 prints it, and a program that catches
  /// it can continue. An exception of another type than Error becomes ErrorCode::system. `section` must not
  /// communicate with other ranks.
  /// @throws Error(ErrorCode::deadline) on all ranks when rank 0 does not finish within `deadline`.
  void on_rank_0(const std::string& name, const std::function<void()>& section,
                 std::chrono::milliseconds deadline = std::chrono::minutes(10));

  /// Counters of this rank's communicators. Thread-safe while neither shrink() nor grow() runs.
  RankMetrics metrics() const;
  /// Counters of another rank. Its control plane thread answers, whatever its program does. Thread-safe while
  /// neither shrink(), grow() nor leave() runs.
  /// @throws Error: usage, deadline (the rank does not answer; the job goes on), or the failure of the job.
  RankMetrics metrics_of(int rank, std::chrono::milliseconds wait = std::chrono::seconds(2)) const;

  /// Waits for the other ranks, at most JoinOptions::deadline, then closes communicators (the same limit) and
  /// connections. A timeline or summary of the job takes at most half of the limit in addition. The job is
  /// over for this process; a second call does nothing.
  /// @throws Error: deadline (it names the ranks that did not leave), lost_rank.
  void leave();

  /// Disconnects at once because this rank cannot continue for a reason of its own, which the program prints.
  /// The other ranks notice the disconnect and end without a message. Does nothing after leave().
  void abort() noexcept;

 private:
  friend struct detail::JobInternals;
  explicit Job(std::unique_ptr<detail::JobState> state);
  std::unique_ptr<detail::JobState> state_;
};

}  // namespace muster
