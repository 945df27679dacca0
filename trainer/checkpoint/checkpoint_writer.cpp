// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/checkpoint_writer.hpp"

#include <chrono>
#include <utility>

namespace muster {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point from) {
  return std::chrono::duration<double>(Clock::now() - from).count();
}

}  // namespace

TrainingTensors CheckpointWriter::copy_buffers() {
  const auto allocate = [this](compute::Arena<float>& arena) {
    if (arena.size() == 0) arena = compute::Arena<float>(table_.arena_size);
  };
  allocate(parameters_);
  allocate(moment1_);
  if (parts_.moments == 2) allocate(moment2_);
  if (parts_.outer_momentum) allocate(outer_momentum_);
  return {parameters_.span(), moment1_.span(), moment2_.span(), outer_momentum_.span()};
}

void CheckpointWriter::start(const TrainingState& state, double copy_seconds, std::function<void()> after) {
  writing_ =
      std::async(std::launch::async, &CheckpointWriter::write, this, state, copy_seconds, std::move(after));
}

CheckpointWriter::Written CheckpointWriter::write(TrainingState state, double copy_seconds,
                                                  const std::function<void()>& after) {
  const auto from = Clock::now();
  Written written;
  written.path = folder_.save(state, table_, copy_buffers());
  written.state = std::move(state);
  written.copy_seconds = copy_seconds;
  written.write_seconds = seconds_since(from);
  after();
  return written;
}

std::optional<CheckpointWriter::Written> CheckpointWriter::poll() {
  if (!writing_.valid() || writing_.wait_for(std::chrono::seconds(0)) != std::future_status::ready)
    return std::nullopt;
  return writing_.get();
}

std::optional<CheckpointWriter::Written> CheckpointWriter::wait() {
  if (!writing_.valid()) return std::nullopt;
  return writing_.get();
}

}  // namespace muster
