// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "job/grow_ranks.hpp"
#include "session.hpp"

namespace simulator {

/// Of each Job::grow(), and of the join of a new process.
inline constexpr std::chrono::milliseconds grow_deadline = std::chrono::seconds(60);

/// The growth of a simulated job: what its ranks and the new processes share.
struct Growth {
  bool invited = false;                                     ///< rank 0 has invited the new processes
  Process* rank_0 = nullptr;                                ///< once the others can connect to it
  std::vector<std::shared_ptr<SimulatedChannel>> accepted;  ///< on rank 0
  std::map<int, std::shared_ptr<SimulatedChannel>> hellos;  ///< those that have sent their hello, by process
  std::optional<std::string> failure;                       ///< on rank 0
  Session* grown = nullptr;                                 ///< the grown job, once rank 0 has all records
  std::function<void(GrowMoment)> on_moment;
};

/// One process's part in a growth, on its program's thread. As RendezvousServer, RendezvousClient and
/// JobState::start_control_plane().
class SimulatedGrowNetwork final : public muster::detail::GrowNetwork {
 public:
  using ControlPlane = muster::control::ControlPlane;

  /// `rank`: in the grown job, of `size` processes. `plane`: of the job that grows, null in a new process.
  /// `make_session` is called once all processes have met, on rank 0. `on_enter` gets the grown job's control
  /// plane.
  SimulatedGrowNetwork(Simulator& simulator, Network& network, Growth& growth, int rank, int size,
                       std::shared_ptr<ControlPlane> plane, std::function<Session&()> make_session,
                       std::function<void(std::shared_ptr<ControlPlane>)> on_enter);

  void exchange(const muster::Deadline& deadline) override;
  void connect(const muster::Deadline& deadline) override;
  void abandon(const std::string& why) noexcept override;
  ControlPlane& enter() override;

 private:
  bool interrupted() const { return plane_ && plane_->failed(); }
  void serve(const muster::Deadline& deadline);
  std::string describe_missing() const;
  std::shared_ptr<SimulatedChannel> reach_rank_0(const muster::Deadline& deadline);
  void pause(const Process& other);
  void check_ended(int rank) const;

  Simulator& simulator_;
  Network& network_;
  Growth& growth_;
  int rank_;
  int size_;
  std::shared_ptr<ControlPlane> plane_, grown_;
  std::function<Session&()> make_session_;
  std::function<void(std::shared_ptr<ControlPlane>)> on_enter_;
};

}  // namespace simulator
