// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <span>

#include "compute/compute.hpp"
#include "muster/communicator.hpp"
#include "strategies/pipeline/plan.hpp"

namespace muster::pipeline {

/// Messages between neighbouring stages. Each pair of ranks has one communicator for each direction, so that
/// a message never waits for one of the other direction; both ends use it in the schedule's order. Sends do
/// not block. On a device the host never waits: receives are enqueued on its main stream, which waits for the
/// sender there, and each link sends on a stream of its own.
class StageLinks {
 public:
  /// Collective over `world`, the ranks of all pipelines, which communicates from the compute's memory.
  /// `pipeline`: the ranks of this pipeline, in their order, on host memory. The compute outlives it.
  StageLinks(const Communicator& world, const Communicator& pipeline, const Plan& plan,
             compute::UpdateCompute<float>& compute);

  /// Receives the stage's input from the stage before, or the gradient of its output from the stage behind.
  void receive_input(std::span<std::byte> to);
  void receive_gradient(std::span<std::byte> to);
  /// Sends the stage's output to the stage behind, or the gradient of its input to the stage before. The
  /// buffer must stay until wait_sent().
  void send_output(std::span<std::byte> from);
  void send_gradient(std::span<std::byte> from);
  /// Returns when the buffer that was sent from here, if any, may be written, on a device by later work.
  void wait_sent(std::span<std::byte> buffer);
  void wait_all_sent();

  /// The tied token embedding's way between the first and the last rank, in both directions. Sends as above.
  void send_table(std::span<float> from);
  void receive_table(std::span<float> to);

  /// A word to the stage behind, ahead of a batch that is only validated: whether there is a batch. Host
  /// memory.
  void send_is_next(bool is_next);
  bool receive_is_next();

  /// Seconds of this rank in receives since the last call, 0 on a device, and bytes that it has sent.
  double take_waited();
  std::size_t take_sent();

 private:
  struct Link {
    std::optional<Communicator> pair;
    std::unique_ptr<compute::SideStream> stream;  ///< of sends, on a device
  };
  /// What has been sent and not waited for: one of both.
  struct PendingSend {
    Work work;
    std::unique_ptr<compute::StreamPosition> position;
  };
  Link open(const Communicator& world, const Plan& plan, int sender, int receiver);
  void connect(Link& link, bool is_sender);
  void receive(Link& link, std::span<std::byte> to, int from);
  void send(Link& link, std::span<std::byte> from, int to);
  static void finish(PendingSend& sent);

  Communicator pipeline_;
  compute::UpdateCompute<float>& compute_;
  Link input_, output_;                    ///< activations
  Link output_gradient_, input_gradient_;  ///< their gradients
  Link table_link_;
  std::map<const void*, PendingSend> sends_;
  double waited_ = 0;
  std::size_t sent_ = 0;
};

}  // namespace muster::pipeline
