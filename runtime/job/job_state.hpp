// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>

#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "communicator/communicator_group.hpp"
#include "communicator/mpi/mpi_session.hpp"
#include "communicator/nccl/gpu.hpp"
#include "control_plane/control_plane.hpp"
#include "deadline.hpp"
#include "muster/job.hpp"
#include "preflight/preflight.hpp"
#include "recovery/survivor_rendezvous.hpp"
#include "roster/bootstrap.hpp"
#include "roster/roster.hpp"
#include "telemetry/telemetry.hpp"

namespace muster {

struct Job::State {
  JoinOptions options;
  std::unique_ptr<bootstrap::Bootstrap> bootstrap;
  std::shared_ptr<detail::JobContext> context = std::make_shared<detail::JobContext>();
  bootstrap::HostMap host_map;
  std::unique_ptr<observe::Telemetry> telemetry;
  std::shared_ptr<detail::Gpu> gpu;
  std::shared_ptr<detail::MpiSession> mpi;
  std::shared_ptr<detail::CommunicatorBackend> world;
  std::shared_ptr<detail::CommunicatorBackend> host_world;
  std::optional<Communicator> intra_node;
  std::optional<Communicator> inter_node;
  int unwinding = std::uncaught_exceptions();
  bool left = false;
  std::vector<bootstrap::JoinRecord> records;  // by rank
  std::unique_ptr<control::SurvivorRendezvous>
      survivor_rendezvous;                    // for shrink(): any rank may have to coordinate it
  std::function<void(const RankLoss&)> save;  // on_rank_lost()
  std::chrono::milliseconds save_deadline{0};
  int shrinks = 0;

  // For diagnosis: mismatches between ranks are collected and do not end the join.
  bool collects_findings = false;
  std::vector<bootstrap::Finding> findings;

  int size() const { return static_cast<int>(context->roster.size()); }
  const Hello& self() const { return context->roster[static_cast<std::size_t>(context->rank)]; }
  bool unwound() const { return std::uncaught_exceptions() > unwinding; }
  void require_joined(const char* what) const {
    if (left) throw Error(ErrorCode::usage, fmt::format("{}: the job was left already", what));
  }

  static std::unique_ptr<State> join(const JoinOptions& options, bool collect_findings);
  // The steps of join(), in this order.
  void select_bootstrap(const Deadline& deadline);
  bootstrap::JoinRecord describe_this_rank(const Deadline& deadline);
  void take_gpu(bootstrap::JoinRecord& mine, const Deadline& deadline);
  void open_listener(bootstrap::JoinRecord& mine);
  void exchange(const bootstrap::JoinRecord& mine, const Deadline& deadline);
  void check_records();
  void collect_findings();
  void detach_from_launcher();

  void start_control_plane(const Deadline& deadline);
  std::shared_ptr<control::ControlPlane> connect_to_rank_0(const Deadline& deadline) const;
  /// How the control plane monitors the ranks of `records`.
  control::ControlPlaneOptions control_plane_options() const;

  std::shared_ptr<detail::CommunicatorBackend> make_gpu_world();
  std::shared_ptr<detail::CommunicatorBackend> make_host_world();

  /// Registers `save` with the control plane, to be called when a rank is lost.
  void register_loss_handler();
  /// The job's rank loss; throws when there is none or the job cannot go on without the rank.
  control::Failure require_loss() const;
  void drop_communicators();
  control::RecoveryConfig recovery_config(const control::Failure& failure) const;
  /// Makes the ranks of `remaining` the job.
  void set_members(std::vector<bootstrap::JoinRecord> remaining, int rank);
  void restart_telemetry();

  void leave();
  void disconnect(bool local_error) noexcept;
  void stop_telemetry() noexcept;
};

}  // namespace muster
