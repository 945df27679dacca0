// SPDX-License-Identifier: Apache-2.0
#include "checkpoint_writer.hpp"

#include <chrono>

namespace muster {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point from) {
  return std::chrono::duration<double>(Clock::now() - from).count();
}

}  // namespace

void CheckpointWriter::start(const TrainingState& state, const TrainingTensors& tensors) {
  const auto from = Clock::now();
  parameters_.assign(tensors.parameters.begin(), tensors.parameters.end());
  moment1_.assign(tensors.moment1.begin(), tensors.moment1.end());
  moment2_.assign(tensors.moment2.begin(), tensors.moment2.end());
  writing_ = std::async(std::launch::async, &CheckpointWriter::write, this, state, seconds_since(from));
}

CheckpointWriter::Written CheckpointWriter::write(TrainingState state, double copy_seconds) {
  const auto from = Clock::now();
  Written written;
  written.path = folder_.save(state, table_, {parameters_, moment1_, moment2_});
  written.state = std::move(state);
  written.copy_seconds = copy_seconds;
  written.write_seconds = seconds_since(from);
  return written;
}

std::optional<CheckpointWriter::Written> CheckpointWriter::finished() {
  if (!writing_.valid() || writing_.wait_for(std::chrono::seconds(0)) != std::future_status::ready)
    return std::nullopt;
  return writing_.get();
}

std::optional<CheckpointWriter::Written> CheckpointWriter::wait() {
  if (!writing_.valid()) return std::nullopt;
  return writing_.get();
}

}  // namespace muster
