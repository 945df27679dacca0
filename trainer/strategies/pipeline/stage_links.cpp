// SPDX-License-Identifier: Apache-2.0
#include "strategies/pipeline/stage_links.hpp"

#include <chrono>
#include <cstdint>
#include <utility>

namespace muster::pipeline {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point from) {
  return std::chrono::duration<double>(Clock::now() - from).count();
}

/// A communicator of `sender` and `receiver`, places in a pipeline, in this order; nothing on other ranks.
std::optional<Communicator> link(const Communicator& world, const Plan& plan, int sender, int receiver) {
  const bool is_sender = plan.rank == sender, is_end = is_sender || plan.rank == receiver;
  Communicator pair = world.split(is_end ? plan.replica : plan.replicas + world.rank(), is_sender ? 0 : 1);
  return is_end ? std::optional(std::move(pair)) : std::nullopt;
}

std::span<std::uint8_t> octets(std::span<std::byte> bytes) {
  return {reinterpret_cast<std::uint8_t*>(bytes.data()), bytes.size()};
}

}  // namespace

// With several stages on each rank, the last rank sends to the first one.
StageLinks::StageLinks(const Communicator& world, const Plan& plan) {
  const int ranks = plan.shape.ranks, edges = plan.shape.virtual_stages > 1 ? ranks : ranks - 1;
  const auto keep = [&](std::optional<Communicator> made, int edge, std::optional<Communicator>& before,
                        std::optional<Communicator>& behind) {
    if (made) (plan.rank == edge ? before : behind) = std::move(made);
  };
  for (int edge = 0; edge < edges; ++edge) {
    const int next = (edge + 1) % ranks;
    keep(link(world, plan, edge, next), edge, output_, input_);
    keep(link(world, plan, next, edge), edge, output_gradient_, input_gradient_);
  }
  table_link_ = link(world, plan, 0, ranks - 1);
}

void StageLinks::receive(std::optional<Communicator>& link, std::span<std::byte> to, int from) {
  const auto begin = Clock::now();
  link->recv(octets(to), from);
  waited_ += seconds_since(begin);
}

void StageLinks::send(std::optional<Communicator>& link, std::span<std::byte> from, int to) {
  sent_ += from.size();
  sends_.insert_or_assign(from.data(), link->async([&] { link->send(octets(from), to); }));
}

// The sender is rank 0 of a link.
void StageLinks::receive_input(std::span<std::byte> to) { receive(input_, to, 0); }
void StageLinks::receive_gradient(std::span<std::byte> to) { receive(output_gradient_, to, 0); }
void StageLinks::send_output(std::span<std::byte> from) { send(output_, from, 1); }
void StageLinks::send_gradient(std::span<std::byte> from) { send(input_gradient_, from, 1); }

void StageLinks::send_table(std::span<float> from) {
  send(table_link_, std::as_writable_bytes(from), 1 - table_link_->rank());
}

void StageLinks::receive_table(std::span<float> to) {
  receive(table_link_, std::as_writable_bytes(to), 1 - table_link_->rank());
}

void StageLinks::wait_sent(std::span<std::byte> buffer) {
  const auto found = sends_.find(buffer.data());
  if (found == sends_.end()) return;
  found->second.wait();
  sends_.erase(found);
}

void StageLinks::wait_all_sent() {
  for (auto& [buffer, work] : sends_) work.wait();
  sends_.clear();
}

void StageLinks::send_is_next(bool is_next) {
  std::uint8_t word = is_next ? 1 : 0;
  output_->send(std::span<std::uint8_t>(&word, 1), 1);
}

bool StageLinks::receive_is_next() {
  std::uint8_t word = 0;
  input_->recv(std::span<std::uint8_t>(&word, 1), 0);
  return word != 0;
}

double StageLinks::take_waited() { return std::exchange(waited_, 0); }
std::size_t StageLinks::take_sent() { return std::exchange(sent_, 0); }

}  // namespace muster::pipeline
