// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "control_plane/control_plane.hpp"
#include "job_plan.hpp"
#include "network.hpp"
#include "recovery/survivor_network.hpp"

namespace simulator {

/// A job from its join to its end or to the next loss: its ranks, and the connections between them.
class Session {
 public:
  struct Rank {
    Process* process = nullptr;
    bool started = false;
    std::weak_ptr<muster::control::ControlPlane> plane;
    std::shared_ptr<SimulatedChannel> to_leader;
    std::shared_ptr<SimulatedChannel> at_leader;
    muster::control::SurvivorNetwork::OnConnect accept;  ///< null unless the rank coordinates the recovery
    bool turned_away = false;                            ///< the next loss came before its leader accepted it
  };

  /// `members`: the processes, by their rank in this session. `grown`: the job has grown to these.
  Session(Simulator& simulator, Network& network, const JobPlan& plan, std::size_t id, int number,
          std::vector<int> members, bool grown = false);

  /// In JobResult::sessions.
  std::size_t id() const { return id_; }
  /// 0 from the join on, one more after each loss and growth.
  int number() const { return number_; }
  const std::vector<int>& members() const { return members_; }
  int size() const { return static_cast<int>(members_.size()); }
  Rank& rank(int number) { return ranks_[static_cast<std::size_t>(number)]; }
  const std::vector<muster::Hello>& roster() const { return roster_; }

  std::shared_ptr<muster::control::ControlPlane> start_plane(int rank, bool watchdog_paused = false);
  /// Its host leader, or rank 0.
  int connects_to(int rank) const { return leader_of(rank) == rank ? 0 : leader_of(rank); }
  /// Other ranks can connect to `leader`.
  bool accepts(int leader) { return rank(leader).started && !rank(leader).plane.expired(); }
  /// Before the rank's control plane closes its connections: it accepts no others.
  void stop_accepting(int leader) { rank(leader).plane.reset(); }
  /// What a connection to the port of `other` shows.
  muster::control::ProcessState state_of(int own, int other);
  Duration draw_round_trip(int own, int other);

  /// By operation of the world: how many ranks entered it with each count.
  std::map<std::uint64_t, std::map<std::size_t, std::size_t>> entered;

 private:
  muster::control::ControlPlaneOptions options(int rank);
  std::vector<muster::control::ProcessState> query_processes(int own, const std::vector<int>& ranks,
                                                             Duration wait);
  void admit(int rank);
  void turn_away(Rank& rank, SimulatedChannel& channel);
  int leader_of(int rank) const { return leaders_[static_cast<std::size_t>(rank)]; }

  Simulator& simulator_;
  Network& network_;
  const JobPlan& plan_;
  std::size_t id_;
  int number_;
  bool grown_;
  std::vector<int> members_;
  std::vector<int> leaders_;
  std::vector<muster::Hello> roster_;
  std::vector<Rank> ranks_;
};

}  // namespace simulator
