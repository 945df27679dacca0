// SPDX-License-Identifier: Apache-2.0
// How a rank's control plane ends.
#include <future>

#include "control_plane/control_plane.hpp"
#include "log.hpp"
#include "roster/roster.hpp"

namespace muster::control {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds departure_time{2000};
// How long what was sent may take to go out when this process ends.
constexpr milliseconds flush_time{1000};

}  // namespace

void ControlPlane::leave() {
  inbox_.begin_leaving();
  if (!thread_.joinable()) return;
  Deadline const deadline(departure_time);
  if (leader_ || relay_) {
    // The others end their connections when they know that everybody arrived; ending first would look like a
    // loss to them.
    bool empty = false;
    while (!empty && !deadline.passed()) {
      auto const looked = std::make_shared<std::promise<bool>>();
      auto seen = looked->get_future();
      asio::post(io_,
                 [this, looked] { looked->set_value(leader_ ? leader_->everyone_left() : relay_->empty()); });
      if (seen.wait_until(deadline.when()) == std::future_status::ready) empty = seen.get();
      if (!empty) std::this_thread::sleep_for(milliseconds{1});
    }
  }
  abandon();
}

void ControlPlane::abandon() noexcept {
  inbox_.begin_leaving();
  if (!thread_.joinable()) return;
  asio::post(io_, [this] {
    if (leader_) leader_->close();
    if (relay_) relay_->close();
    if (channel_) channel_->close();
    unattended_.cancel();
    asio::error_code ignored;
    launcher_end_.close(ignored);
    work_.reset();  // the thread ends when all was sent
  });
  inbox_.wait_for_end(flush_time);
  io_.stop();
  thread_.join();
}

void ControlPlane::abandon_for_own_reason() noexcept {
  try {
    if (!failed() && !inbox_.leaving() && thread_.joinable()) {
      post({{"is", "broken"},
            {"code", static_cast<int>(ErrorCode::lost_rank)},
            {"speaker", rank_},
            {"text", bootstrap::describe_rank(self()) + " left the job for a reason of its own"}});
    }
  } catch (const std::exception& error) {
    log::debug("control: cannot tell the others: {}", error.what());
  }
  abandon();
}

}  // namespace muster::control
