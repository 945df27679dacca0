// SPDX-License-Identifier: Apache-2.0
// Shutdown of a rank's control plane.
#include <future>

#include "control_plane/control_plane.hpp"
#include "log.hpp"
#include "roster/roster.hpp"

namespace muster::control {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds shutdown_timeout{2000};
// How long queued messages may take to be sent when this process ends.
constexpr milliseconds flush_timeout{1000};

}  // namespace

void ControlPlane::leave() {
  mailbox_.begin_leaving();
  if (!thread_.joinable()) return;
  Deadline const deadline(shutdown_timeout);
  if (coordinator_ || relay_) {
    // The other ranks disconnect once they have the final barrier's result. To disconnect before them would
    // look like a loss.
    bool empty = false;
    while (!empty && !deadline.passed()) {
      auto const checked = std::make_shared<std::promise<bool>>();
      auto result = checked->get_future();
      asio::post(io_, [this, checked] {
        checked->set_value(coordinator_ ? coordinator_->all_disconnected() : relay_->empty());
      });
      if (result.wait_until(deadline.when()) == std::future_status::ready) empty = result.get();
      if (!empty) std::this_thread::sleep_for(milliseconds{1});
    }
  }
  abort_connections();
}

void ControlPlane::abort_connections() noexcept {
  mailbox_.begin_leaving();
  if (!thread_.joinable()) return;
  asio::post(io_, [this] {
    if (coordinator_) coordinator_->close();
    if (relay_) relay_->close();
    if (channel_) channel_->close();
    abort_timer_.cancel();
    asio::error_code ignored;
    launcher_exit_.close(ignored);
    work_.reset();  // the thread ends when every message is sent
  });
  mailbox_.wait_for_thread_end(flush_timeout);
  io_.stop();
  thread_.join();
}

void ControlPlane::abort_with_local_error() noexcept {
  try {
    if (!failed() && !mailbox_.leaving() && thread_.joinable()) {
      post({{"is", "broken"},
            {"code", static_cast<int>(ErrorCode::lost_rank)},
            {"speaker", rank_},
            {"text", bootstrap::describe_rank(self()) + " left the job for a reason of its own"}});
    }
  } catch (const std::exception& error) {
    log::debug("control: cannot send the failure to the other ranks: {}", error.what());
  }
  abort_connections();
}

}  // namespace muster::control
