// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <span>

#include "muster/communicator.hpp"
#include "strategies/pipeline/plan.hpp"

namespace muster::pipeline {

/// Messages between neighbouring stages. Each pair of ranks has one communicator for each direction, so that
/// a message never waits for one of the other direction; both ends use it in the schedule's order. Sends do
/// not block.
class StageLinks {
 public:
  /// Collective over `world`, the ranks of all pipelines.
  StageLinks(const Communicator& world, const Plan& plan);

  /// Receives the stage's input from the stage before, or the gradient of its output from the stage behind.
  void receive_input(std::span<std::byte> to);
  void receive_gradient(std::span<std::byte> to);
  /// Sends the stage's output to the stage behind, or the gradient of its input to the stage before. The
  /// buffer must stay until wait_sent().
  void send_output(std::span<std::byte> from);
  void send_gradient(std::span<std::byte> from);
  /// Returns when the buffer that was sent from here, if any, may be written.
  void wait_sent(std::span<std::byte> buffer);
  void wait_all_sent();

  /// The tied token embedding's way between the first and the last rank, in both directions. Sends as above.
  void send_table(std::span<float> from);
  void receive_table(std::span<float> to);

  /// A word to the stage behind, ahead of a batch that is only validated: whether there is a batch.
  void send_is_next(bool is_next);
  bool receive_is_next();

  /// Seconds of this rank in receives since the last call, and bytes that it has sent.
  double take_waited();
  std::size_t take_sent();

 private:
  void receive(std::optional<Communicator>& link, std::span<std::byte> to, int from);
  void send(std::optional<Communicator>& link, std::span<std::byte> from, int to);

  std::optional<Communicator> input_, output_;                    ///< activations
  std::optional<Communicator> output_gradient_, input_gradient_;  ///< their gradients
  std::optional<Communicator> table_link_;
  std::map<const void*, Work> sends_;
  double waited_ = 0;
  std::size_t sent_ = 0;
};

}  // namespace muster::pipeline
