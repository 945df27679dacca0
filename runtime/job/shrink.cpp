// SPDX-License-Identifier: Apache-2.0
// How the ranks that are left after a loss become a smaller job.
#include <fmt/format.h>
#include <sodium.h>

#include <iterator>
#include <utility>

#include "cbor.hpp"
#include "job/job_state.hpp"
#include "log.hpp"

namespace muster {

using bootstrap::JoinRecord;
using std::chrono::milliseconds;

namespace {

// A secret that only the job's ranks can derive.
control::Key key_of_reunion(const std::vector<JoinRecord>& records, int number) {
  auto const text = fmt::format("muster reunion {}", number);
  control::Key key{};
  const auto& of_job = records.front().key;
  crypto_generichash(key.data(), key.size(), reinterpret_cast<const unsigned char*>(text.data()), text.size(),
                     of_job.data(), of_job.size());
  return key;
}

// What each rank brings to a reunion: where it can be found from then on, should it become rank 0.
struct Word {
  std::uint16_t port = 0;
  std::uint16_t reunion_port = 0;
  std::vector<std::uint8_t> key;
  bool can_shrink = false;  ///< its NCCL, its world
};

std::vector<std::uint8_t> encode(const Word& word) {
  return write_cbor(nlohmann::json{{"port", word.port},
                                   {"reunion_port", word.reunion_port},
                                   {"key", nlohmann::json::binary(word.key)},
                                   {"can_shrink", word.can_shrink}});
}

Word decode(const std::vector<std::uint8_t>& bytes) {
  auto const object = read_cbor(bytes, "a survivor's word");
  return {object.at("port").get<std::uint16_t>(), object.at("reunion_port").get<std::uint16_t>(),
          object.at("key").get_binary(), object.at("can_shrink").get<bool>()};
}

// The next job, and who is not of it.
struct Survivors {
  std::vector<JoinRecord> records;  // by new rank
  std::vector<int> lost;        // old ranks
  bool all_can_shrink = true;
};

Survivors survivors_of(const std::vector<JoinRecord>& before, const control::SurvivorRendezvous::Words& words) {
  Survivors survivors;
  for (std::size_t rank = 0; rank < before.size(); ++rank) {
    auto const said = words.find(static_cast<int>(rank));
    if (said == words.end()) {
      survivors.lost.push_back(static_cast<int>(rank));
      continue;
    }
    auto const word = decode(said->second);
    bool const leads = survivors.records.empty();
    auto& record = survivors.records.emplace_back(before[rank]);
    record.port = word.port;
    record.reunion_port = word.reunion_port;
    record.key = leads ? word.key : std::vector<std::uint8_t>{};
    survivors.all_can_shrink = survivors.all_can_shrink && word.can_shrink;
  }
  return survivors;
}

}  // namespace

void Job::shrink(milliseconds wait) {
  auto& state = *state_;
  auto const failure = state.require_loss();
  Deadline const deadline(wait);
  state.give_up_communicators();

  // Each is ready to be the next rank 0.
  auto plane = control::ControlPlane::listen(control::random_key());
  auto next_reunion = std::make_unique<control::SurvivorRendezvous>();
  auto const& key = plane->key();
  auto const words = state.reunion->run(state.reunion_plan(failure),
                                        encode(Word{plane->port(),
                                                    next_reunion->port(),
                                                    {key.begin(), key.end()},
                                                    state.gpu && state.gpu->can_shrink()}),
                                        deadline);

  auto survivors = survivors_of(state.records, words);
  auto const rank = static_cast<int>(std::distance(words.begin(), words.find(state.context->rank)));
  state.become(std::move(survivors.records), rank);
  state.reunion = std::move(next_reunion);
  ++state.shrinks;
  if (state.size() > 1) {
    if (rank == 0) state.context->plane = std::move(plane);
    state.start_plane(deadline);
  }
  state.watch_for_loss();
  state.watch_again();
  if (state.gpu && survivors.all_can_shrink)
    state.world = state.gpu->shrink_world(detail::CommunicatorGroup(state.context, "world"), survivors.lost, deadline);
  else if (state.gpu)
    state.gpu->end_all();
  log::debug("shrink: {} ranks are left", state.size());
}

control::Failure Job::State::require_loss() const {
  require_here("shrink");
  if (!options.tolerate_rank_loss)
    throw Error(ErrorCode::usage, "shrink: the job was not joined with JoinOptions::tolerate_rank_loss");
  auto const failure = context->plane ? context->plane->failure() : std::nullopt;
  if (!failure) throw Error(ErrorCode::usage, "shrink: no rank was lost");
  // A rank that nobody looks after any more ends.
  if (failure->code != ErrorCode::lost_rank || context->plane->orphaned())
    throw Error(failure->code, failure->text, true);
  return *failure;
}

void Job::State::give_up_communicators() {
  world.reset();
  host_world.reset();
  intra_node.reset();
  inter_node.reset();
  stop_watching();
  context->plane->abandon();
}

control::RecoveryConfig Job::State::reunion_plan(const control::Failure& failure) const {
  control::RecoveryConfig plan;
  plan.rank = context->rank;
  const JoinRecord& self = records[static_cast<std::size_t>(context->rank)];
  for (const auto& record : records) {
    plan.names.push_back(bootstrap::describe_rank(record.hello));
    plan.addresses.push_back(bootstrap::addresses_of(record, self));
    plan.ports.push_back(record.reunion_port);
  }
  plan.key = key_of_reunion(records, shrinks);
  if (failure.lost >= 0 && failure.lost != context->rank)
    (failure.certain ? plan.ended : plan.silent).insert(failure.lost);
  return plan;
}

void Job::State::become(std::vector<JoinRecord> remaining, int rank) {
  auto next = std::make_shared<detail::JobContext>();
  next->operation_timeout = context->operation_timeout;
  next->timings = context->timings;
  next->rank = rank;
  for (std::size_t r = 0; r < remaining.size(); ++r) {
    remaining[r].hello.rank = static_cast<int>(r);
    next->roster.push_back(remaining[r].hello);
  }
  records = std::move(remaining);
  host_map = bootstrap::seat(next->roster);
  context = std::move(next);
  log::set_rank(rank);
}

// What rank 0 gathers at the end ended with the loss.
void Job::State::watch_again() {
  JoinRecord wishes = records.front();
  wishes.timeline = wishes.gathers = false;
  watch = std::make_unique<observe::Telemetry>(wishes, context->roster, context->rank, context->plane, nullptr);
}

}  // namespace muster
