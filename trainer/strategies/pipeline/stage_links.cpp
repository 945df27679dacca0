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

std::span<std::uint8_t> octets(std::span<std::byte> bytes) {
  return {reinterpret_cast<std::uint8_t*>(bytes.data()), bytes.size()};
}

}  // namespace

// With several stages on each rank, the last rank sends to the first one.
StageLinks::StageLinks(const Communicator& world, const Communicator& pipeline, const Plan& plan,
                       compute::UpdateCompute<float>& compute)
    : pipeline_(pipeline), compute_(compute) {
  const int ranks = plan.shape.ranks, edges = plan.shape.virtual_stages > 1 ? ranks : ranks - 1;
  const auto keep = [&](Link made, int edge, Link& before, Link& behind) {
    if (made.pair) (plan.rank == edge ? before : behind) = std::move(made);
  };
  for (int edge = 0; edge < edges; ++edge) {
    const int next = (edge + 1) % ranks;
    keep(open(world, plan, edge, next), edge, output_, input_);
    keep(open(world, plan, next, edge), edge, output_gradient_, input_gradient_);
  }
  table_link_ = open(world, plan, 0, ranks - 1);
  if (table_link_.pair) connect(table_link_, plan.rank != 0);
}

/// A link of `sender` and `receiver`, places in a pipeline, in this order; nothing on other ranks.
StageLinks::Link StageLinks::open(const Communicator& world, const Plan& plan, int sender, int receiver) {
  const bool is_sender = plan.rank == sender, is_end = is_sender || plan.rank == receiver;
  Communicator pair = world.split(is_end ? plan.replica : plan.replicas + world.rank(), is_sender ? 0 : 1);
  Link link;
  if (!is_end) return link;
  link.pair = std::move(pair);
  link.stream = compute_.open_side_stream();
  connect(link, is_sender);
  return link;
}

// NCCL connects two ranks at their first message, for which the host waits until the other rank has called
// it, too. In a step that would be another order than the schedule's.
void StageLinks::connect(Link& link, bool is_sender) {
  if (compute_.stream() == nullptr) return;
  compute::Arena<float> word(1, compute_.memory());
  if (is_sender)
    link.pair->send(word.span(), 1 - link.pair->rank(), compute_.stream());
  else
    link.pair->recv(word.span(), 1 - link.pair->rank(), compute_.stream());
  link.pair->synchronize(compute_.stream());
}

void StageLinks::receive(Link& link, std::span<std::byte> to, int from) {
  if (link.stream) return link.pair->recv(octets(to), from, compute_.stream());
  const auto begin = Clock::now();
  link.pair->recv(octets(to), from);
  waited_ += seconds_since(begin);
}

void StageLinks::send(Link& link, std::span<std::byte> from, int to) {
  sent_ += from.size();
  PendingSend sent;
  if (link.stream) {
    link.stream->wait_for_main();
    link.pair->send(octets(from), to, link.stream->stream());
    sent.position = link.stream->position();
  } else {
    sent.work = link.pair->async([&] { link.pair->send(octets(from), to); });
  }
  sends_.insert_or_assign(from.data(), std::move(sent));
}

// The sender is rank 0 of a link.
void StageLinks::receive_input(std::span<std::byte> to) { receive(input_, to, 0); }
void StageLinks::receive_gradient(std::span<std::byte> to) { receive(output_gradient_, to, 0); }
void StageLinks::send_output(std::span<std::byte> from) { send(output_, from, 1); }
void StageLinks::send_gradient(std::span<std::byte> from) { send(input_gradient_, from, 1); }

void StageLinks::send_table(std::span<float> from) {
  send(table_link_, std::as_writable_bytes(from), 1 - table_link_.pair->rank());
}

void StageLinks::receive_table(std::span<float> to) {
  receive(table_link_, std::as_writable_bytes(to), 1 - table_link_.pair->rank());
}

void StageLinks::wait_sent(std::span<std::byte> buffer) {
  const auto found = sends_.find(buffer.data());
  if (found == sends_.end()) return;
  finish(found->second);
  sends_.erase(found);
}

void StageLinks::wait_all_sent() {
  for (auto& [buffer, sent] : sends_) finish(sent);
  sends_.clear();
}

void StageLinks::finish(PendingSend& sent) {
  if (sent.position)
    sent.position->block_main();
  else
    sent.work.wait();
}

// On host memory the link carries the word behind its earlier messages, so that this rank waits for their
// thread and does not poll beside it: on a core that ranks share, that starved the other rank.
void StageLinks::send_is_next(bool is_next) {
  std::uint8_t word = is_next ? 1 : 0;
  if (compute_.stream() == nullptr) return output_.pair->send(std::span(&word, 1), 1);
  pipeline_.send(word, (pipeline_.rank() + 1) % pipeline_.size());
}

bool StageLinks::receive_is_next() {
  std::uint8_t word = 0;
  if (compute_.stream() == nullptr)
    input_.pair->recv(std::span(&word, 1), 0);
  else
    pipeline_.recv(word, (pipeline_.rank() + pipeline_.size() - 1) % pipeline_.size());
  return word != 0;
}

double StageLinks::take_waited() { return std::exchange(waited_, 0); }
std::size_t StageLinks::take_sent() { return std::exchange(sent_, 0); }

}  // namespace muster::pipeline
