// SPDX-License-Identifier: Apache-2.0
#include "job/grow_ranks.hpp"

#include <atomic>
#include <numeric>
#include <vector>

#include "log.hpp"
#include "muster/error.hpp"

namespace muster::detail {
namespace {

using std::chrono::milliseconds;

// Longer than a rank needs from the deadline of the growth to its vote.
constexpr milliseconds vote_time{30'000};

// While a rank is in exchange() and connect(), it notices a failure late.
class WatchdogGuard {
 public:
  explicit WatchdogGuard(control::ControlPlane* plane) : plane_(plane) {
    if (plane_ != nullptr) plane_->pause_watchdog(true);
  }
  ~WatchdogGuard() {
    if (plane_ != nullptr) plane_->pause_watchdog(false);
  }
  WatchdogGuard(const WatchdogGuard&) = delete;
  WatchdogGuard& operator=(const WatchdogGuard&) = delete;

 private:
  control::ControlPlane* plane_;
};

// Returns why this rank cannot be in the grown job; empty: it can.
std::string connect(GrowNetwork& network, control::ControlPlane* plane, const Deadline& deadline) {
  WatchdogGuard const paused(plane);
  try {
    network.exchange(deadline);
    network.connect(deadline);
    return "";
  } catch (const std::exception& error) {
    return error.what();
  }
}

// Each rank says why it cannot be in the grown job, so that all ranks decide the same. Rank 0 knows most, and
// comes first. A lost rank does not vote: the job then fails, and names it.
void vote(control::ControlPlane* plane, int ranks, const std::string& obstacle, const Deadline& deadline) {
  std::vector<std::string> obstacles{obstacle};
  if (plane != nullptr) {
    std::vector<int> all(static_cast<std::size_t>(ranks));
    std::iota(all.begin(), all.end(), 0);
    auto const votes = plane->gather("grow", all, control::Blob(obstacle.begin(), obstacle.end()),
                                     deadline.remaining() + vote_time);
    obstacles.clear();
    for (const auto& one : votes) obstacles.emplace_back(one.begin(), one.end());
  }
  for (const auto& one : obstacles)
    if (!one.empty())
      throw Error(ErrorCode::deadline, "grow: the job goes on as before: " + one,
                  plane != nullptr && plane->rank() != 0);
}

// No rank uses the old control plane any more.
void leave(control::ControlPlane& plane) noexcept {
  try {
    plane.on_loss(nullptr, milliseconds{0});
    plane.final_barrier("grow", vote_time);
    plane.leave();
  } catch (const std::exception& error) {
    // The grown job notices a loss, too.
    log::debug("grow: {}", error.what());
    plane.abort_connections();
  }
}

// The last call of the growth on all ranks of the grown job: the new processes learn that the ranks have
// decided to grow.
void meet_grown_job(control::ControlPlane& plane, const Deadline& deadline) {
  plane.barrier("grow", deadline.remaining() + vote_time);
}

}  // namespace

void await_connections(const std::shared_ptr<control::ControlPlane>& plane, control::ControlPlane& growing,
                       milliseconds wait) {
  auto const interrupted = std::make_shared<std::atomic<bool>>(false);
  growing.on_failure([interrupted, weak = std::weak_ptr(plane)] {
    *interrupted = true;
    if (auto const waiting = weak.lock()) waiting->wake_waiters();
  });
  plane->barrier("join", wait, interrupted.get());
}

void enter_grown_job(const std::function<control::ControlPlane&()>& connect, const Deadline& deadline) {
  try {
    meet_grown_job(connect(), deadline);
  } catch (const control::EndedRankError& error) {
    throw Error(error.code(), std::string("join: the job goes on without this process: ") + error.what());
  }
}

void grow_ranks(GrowNetwork& network, control::ControlPlane* plane, int ranks, const Deadline& deadline) {
  auto const obstacle = connect(network, plane, deadline);
  try {
    vote(plane, ranks, obstacle, deadline);
  } catch (const std::exception& error) {
    network.abandon(error.what());
    throw;
  }
  if (plane != nullptr) leave(*plane);
  auto& grown = network.enter();
  grown.pause_watchdog(false);
  meet_grown_job(grown, deadline);
}

}  // namespace muster::detail
