// SPDX-License-Identifier: Apache-2.0
#include "job/job_state.hpp"
#include "log.hpp"

namespace muster {

void Job::on_rank_lost(std::function<void(const RankLoss&)> save, std::chrono::milliseconds deadline) {
  state_->require_joined("on_rank_lost");
  state_->save = std::move(save);
  state_->save_deadline = deadline;
  state_->register_loss_handler();
}

void Job::State::register_loss_handler() {
  if (!context->plane || !save) return;
  context->plane->on_loss(
      [call = save](const control::Failure& failure) {
        RankLoss loss{{}, failure.text};
        if (failure.lost >= 0) loss.ranks.push_back(failure.lost);
        try {
          call(loss);
        } catch (const std::exception& error) {
          log::warn(fmt::format("on_rank_lost: {}", error.what()));
        }
      },
      save_deadline);
}

}  // namespace muster
