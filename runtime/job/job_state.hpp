// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "communicator/communicator_group.hpp"
#include "job/job_communicators.hpp"
#include "muster/job.hpp"
#include "preflight/preflight.hpp"
#include "recovery/survivor_rendezvous.hpp"
#include "roster/bootstrap.hpp"
#include "roster/roster.hpp"
#include "telemetry/telemetry.hpp"

namespace muster::detail {

/// A job as one of its ranks has it, from join() to leave(). Not thread-safe.
struct JobState {
  JobState() = default;
  /// Disconnects, as Job's destructor describes it.
  ~JobState() { disconnect(std::uncaught_exceptions() > unwinding); }
  JobState(const JobState&) = delete;
  JobState& operator=(const JobState&) = delete;

  JoinOptions options;
  std::unique_ptr<bootstrap::Bootstrap> bootstrap;
  std::shared_ptr<JobContext> context = std::make_shared<JobContext>();
  bootstrap::HostMap host_map;
  std::unique_ptr<observe::Telemetry> telemetry;
  JobCommunicators communicators{context, options};
  int unwinding = std::uncaught_exceptions();
  bool left = true;                            // until the join is complete, and after leave()
  std::vector<bootstrap::JoinRecord> records;  // by rank
  // Any rank may lead the other ranks of its host. Listens before they learn its name, until the control
  // plane has it.
  std::shared_ptr<control::LocalListener> local_listener;
  // For shrink(): any rank may have to coordinate it. Its port also shows the other ranks that this process
  // runs.
  std::shared_ptr<control::SurvivorRendezvous> survivor_rendezvous;
  // A rank that comes too late to a recovery must not take this process for ended: it would go on alone.
  std::vector<std::shared_ptr<control::SurvivorRendezvous>> earlier_rendezvous;
  std::function<void(const RankLoss&)> save;  // on_rank_lost()
  std::chrono::milliseconds save_deadline{0};
  int shrinks = 0;
  bool invited = false;  // this process joined a job that grew
  // Of a world of one: the first store_plane() makes it.
  std::once_flag own_plane_made;
  std::shared_ptr<control::ControlPlane> own_plane;

  // For diagnosis: mismatches between ranks are collected and do not end the join.
  bool collects_findings = false;
  std::vector<bootstrap::Finding> findings;

  int size() const { return static_cast<int>(context->roster.size()); }
  const Hello& self() const { return context->roster[static_cast<std::size_t>(context->rank)]; }
  /// This job. @throws Error(ErrorCode::usage) after leave(); `what` is the call.
  JobState& joined(const char* what);

  /// Connects the ranks of `records`: after the join, and again after a loss or a growth. Rank 0 listens
  /// already. `growing`: the control plane of the job that may grow to these ranks. When it fails, this call
  /// ends with an error; the new control plane's watchdog is paused.
  void start_control_plane(const Deadline& deadline,
                           const std::shared_ptr<control::ControlPlane>& growing = nullptr);
  /// The control plane that keeps the job's store. Thread-safe.
  std::shared_ptr<control::ControlPlane> store_plane();
  /// Registers `save` with the control plane, to be called when a rank is lost.
  void register_loss_handler();
  void leave();
  /// Leaves, or closes the connections at once after an error.
  void disconnect(bool local_error) noexcept;
  /// After a failure, when the other ranks may not answer any more.
  void stop_telemetry() noexcept;
  /// For the job's new members. Rank 0 does not gather telemetry any more.
  void restart_telemetry();
};

}  // namespace muster::detail
