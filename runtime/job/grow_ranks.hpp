// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "control_plane/control_plane.hpp"
#include "deadline.hpp"

namespace muster::detail {

/// How one rank of a job that grows reaches the other ranks and the new processes: by sockets, or in the
/// tests' simulator.
class GrowNetwork {
 public:
  GrowNetwork() = default;
  GrowNetwork(const GrowNetwork&) = delete;
  GrowNetwork& operator=(const GrowNetwork&) = delete;
  virtual ~GrowNetwork() = default;

  /// Meets the others and exchanges records with them. Ends soon after a failure of the job.
  /// @throws Error
  virtual void exchange(const Deadline& deadline) = 0;
  /// Starts the control plane of the grown job, with the watchdog paused. Returns when all have connected;
  /// ends soon after a failure of the job.
  /// @throws Error
  virtual void connect(const Deadline& deadline) = 0;
  /// Ends the control plane that connect() started, for the reason `why`, if it did.
  virtual void abandon(const std::string& why) noexcept = 0;
  /// Makes this rank one of the grown job. Returns its control plane.
  virtual control::ControlPlane& enter() = 0;
};

/// A job of `ranks` ranks grows. `plane` is its control plane, null for one rank. All ranks decide together:
/// the job grows if each of them could connect. Otherwise they abandon the growth, and the job is as before.
/// @throws Error: the failure of the job before the growth, or of the grown job; deadline when the job goes
/// on as before.
void grow_ranks(GrowNetwork& network, control::ControlPlane* plane, int ranks, const Deadline& deadline);

/// The first barrier of `plane`, the control plane of the grown job. Ends with an error when `growing`, that
/// of the job before, fails.
void await_connections(const std::shared_ptr<control::ControlPlane>& plane, control::ControlPlane& growing,
                       std::chrono::milliseconds wait);

/// A new process becomes a rank of the grown job, if its ranks decide to grow. `connect` returns its control
/// plane once all have connected.
/// @throws Error, also when the job goes on without this process.
void enter_grown_job(const std::function<control::ControlPlane&()>& connect, const Deadline& deadline);

}  // namespace muster::detail
