// SPDX-License-Identifier: Apache-2.0
// What a job does when ranks were lost: saves, and goes on with those that are left.
#include <fmt/format.h>
#include <sodium.h>

#include <algorithm>
#include <cstdio>
#include <utility>

#include "cbor.hpp"
#include "job_state.hpp"
#include "log.hpp"

namespace muster {

using bootstrap::Record;
using std::chrono::milliseconds;

namespace {

// Both are secrets that only the job's ranks can derive.
control::Key key_of_reunion(const std::vector<Record>& records, int number) {
  auto const text = fmt::format("muster reunion {}", number);
  control::Key key{};
  const auto& of_job = records.front().key;
  crypto_generichash(key.data(), key.size(), reinterpret_cast<const unsigned char*>(text.data()), text.size(),
                     of_job.data(), of_job.size());
  return key;
}

// The addresses of `other`, as `self` should try them.
std::vector<std::string> addresses_of(const Record& other, const Record& self) {
  auto addresses = other.addresses;
  if (other.hello.boot_id == self.hello.boot_id && other.network == self.network)
    addresses.insert(addresses.begin(), "127.0.0.1");
  return addresses;
}

// What each rank brings to a reunion: where it can be found from then on, should it become rank 0.
struct Word {
  std::uint16_t port = 0;
  std::uint16_t reunion_port = 0;
  std::vector<std::uint8_t> key;
  bool can_shrink = false;  ///< its NCCL, its world
};

std::vector<std::uint8_t> encode(const Word& word) {
  return write_cbor(nlohmann::json{
      {"port", word.port}, {"reunion_port", word.reunion_port}, {"key", nlohmann::json::binary(word.key)},
      {"can_shrink", word.can_shrink}});
}

Word decode(const std::vector<std::uint8_t>& bytes) {
  auto const object = read_cbor(bytes, "a survivor's word");
  return {object.at("port").get<std::uint16_t>(), object.at("reunion_port").get<std::uint16_t>(),
          object.at("key").get_binary(), object.at("can_shrink").get<bool>()};
}

}  // namespace

void Job::on_rank_lost(std::function<void(const Loss&)> save, milliseconds deadline) {
  state_->require_here("on_rank_lost");
  state_->save = std::move(save);
  state_->save_deadline = deadline;
  state_->watch_for_loss();
}

void Job::State::watch_for_loss() {
  if (!context->plane || !save) return;
  context->plane->on_loss(
      [call = save](const control::Failure& failure) {
        Loss loss{{}, failure.text};
        if (failure.lost >= 0) loss.ranks.push_back(failure.lost);
        try {
          call(loss);
        } catch (const std::exception& error) {
          log::warn(fmt::format("on_rank_lost: {}", error.what()));
        }
      },
      save_deadline);
}

control::Failure Job::State::require_loss() const {
  require_here("shrink");
  if (!options.survive_losses)
    throw Error(Fault::usage, "shrink: the job was not joined with JoinOptions::survive_losses");
  auto const failure = context->plane ? context->plane->failure() : std::nullopt;
  if (!failure) throw Error(Fault::usage, "shrink: no rank was lost");
  // A rank that nobody looks after any more ends.
  if (failure->fault != Fault::lost_rank || context->plane->orphaned())
    throw Error(failure->fault, failure->text, true);
  return *failure;
}

control::ReunionPlan Job::State::reunion_plan(const control::Failure& failure) const {
  control::ReunionPlan plan;
  plan.rank = context->rank;
  const Record& self = records[static_cast<std::size_t>(context->rank)];
  for (const auto& record : records) {
    plan.names.push_back(bootstrap::name_of_rank(record.hello));
    plan.addresses.push_back(addresses_of(record, self));
    plan.ports.push_back(record.reunion_port);
  }
  plan.key = key_of_reunion(records, shrinks);
  if (failure.lost >= 0 && failure.lost != context->rank)
    (failure.certain ? plan.ended : plan.silent).insert(failure.lost);
  return plan;
}

void Job::State::become(std::vector<Record> remaining, int rank) {
  auto next = std::make_shared<detail::JobContext>();
  next->operation_timeout = context->operation_timeout;
  next->timings = context->timings;
  next->rank = rank;
  for (std::size_t r = 0; r < remaining.size(); ++r) {
    remaining[r].hello.rank = static_cast<int>(r);
    next->roster.push_back(remaining[r].hello);
  }
  records = std::move(remaining);
  seating = bootstrap::seat(next->roster);
  context = std::move(next);
  log::set_rank(rank);
}

void Job::shrink(milliseconds wait) {
  auto& state = *state_;
  auto const failure = state.require_loss();
  Deadline const deadline(wait);
  state.world.reset();
  state.host_world.reset();
  state.node.reset();
  state.across_nodes.reset();
  if (state.watch) state.watch->gather_after_failure();
  state.watch.reset();
  state.context->plane->abandon();

  // Each is ready to be the next rank 0.
  auto plane = control::Plane::listen(control::random_key());
  auto next_reunion = std::make_unique<control::Reunion>();
  auto const key = plane->key();
  auto const words = state.reunion->run(
      state.reunion_plan(failure),
      encode(Word{plane->port(), next_reunion->port(), {key.begin(), key.end()},
                  state.gpu && state.gpu->can_shrink()}),
      deadline);

  std::vector<Record> remaining;
  std::vector<int> lost;
  for (int r = 0; r < state.size(); ++r)
    if (!words.contains(r)) lost.push_back(r);
  bool all_can_shrink = true;
  int rank = 0;
  for (const auto& [old, bytes] : words) {
    auto const word = decode(bytes);
    all_can_shrink = all_can_shrink && word.can_shrink;
    if (old == state.context->rank) rank = static_cast<int>(remaining.size());
    auto& record = remaining.emplace_back(state.records.at(static_cast<std::size_t>(old)));
    record.port = word.port;
    record.reunion_port = word.reunion_port;
    record.key = remaining.size() == 1 ? word.key : std::vector<std::uint8_t>{};
  }
  state.become(std::move(remaining), rank);
  state.reunion = std::move(next_reunion);
  ++state.shrinks;
  if (rank == 0 && words.size() > 1) state.context->plane = std::move(plane);
  if (words.size() > 1) state.start_plane(deadline);
  state.watch_for_loss();
  Record wishes = state.records.front();
  wishes.timeline = wishes.gathers = false;  // what rank 0 gathers ended with the loss
  state.watch = std::make_unique<observe::Watch>(wishes, state.context->roster, rank, state.context->plane, nullptr);
  if (state.gpu && all_can_shrink)
    state.world = state.gpu->shrink_world(detail::Group(state.context, "world"), lost, deadline);
  else if (state.gpu)
    state.gpu->end_all();
  log::debug("shrink: {} ranks are left", words.size());
}

}  // namespace muster
