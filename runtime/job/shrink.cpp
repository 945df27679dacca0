// SPDX-License-Identifier: Apache-2.0
// How the remaining ranks become a smaller job after a loss.
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
control::Key derive_recovery_key(const std::vector<JoinRecord>& records, int number) {
  auto const text = fmt::format("muster reunion {}", number);
  control::Key key{};
  const auto& of_job = records.front().key;
  crypto_generichash(key.data(), key.size(), reinterpret_cast<const unsigned char*>(text.data()), text.size(),
                     of_job.data(), of_job.size());
  return key;
}

// What each rank sends to the other survivors: where they can reach it if it becomes rank 0.
struct SurvivorInfo {
  std::uint16_t port = 0;
  std::uint16_t recovery_port = 0;
  std::vector<std::uint8_t> key;
  bool can_shrink = false;  ///< its NCCL and its world communicator
};

std::vector<std::uint8_t> encode_survivor(const SurvivorInfo& info) {
  return write_cbor(nlohmann::json{{"port", info.port},
                                   {"reunion_port", info.recovery_port},
                                   {"key", nlohmann::json::binary(info.key)},
                                   {"can_shrink", info.can_shrink}});
}

SurvivorInfo decode_survivor(const std::vector<std::uint8_t>& bytes) {
  auto const object = read_cbor(bytes, "a survivor's data");
  return {object.at("port").get<std::uint16_t>(), object.at("reunion_port").get<std::uint16_t>(),
          object.at("key").get_binary(), object.at("can_shrink").get<bool>()};
}

// The records of the next job, and the ranks that it lost.
struct Survivors {
  std::vector<JoinRecord> records;  // by new rank
  std::vector<int> lost;            // old ranks
  bool all_can_shrink = true;
};

Survivors collect_survivors(const std::vector<JoinRecord>& before,
                            const control::SurvivorRendezvous::Payloads& payloads) {
  Survivors survivors;
  for (std::size_t rank = 0; rank < before.size(); ++rank) {
    auto const payload = payloads.find(static_cast<int>(rank));
    if (payload == payloads.end()) {
      survivors.lost.push_back(static_cast<int>(rank));
      continue;
    }
    auto const info = decode_survivor(payload->second);
    bool const is_new_rank_0 = survivors.records.empty();
    auto& record = survivors.records.emplace_back(before[rank]);
    record.port = info.port;
    record.recovery_port = info.recovery_port;
    record.key = is_new_rank_0 ? info.key : std::vector<std::uint8_t>{};
    survivors.all_can_shrink = survivors.all_can_shrink && info.can_shrink;
  }
  return survivors;
}

}  // namespace

void Job::shrink(milliseconds wait) {
  auto& state = *state_;
  auto const failure = state.require_loss();
  Deadline const deadline(wait);
  state.drop_communicators();

  // Each rank may become the next rank 0.
  auto plane = control::ControlPlane::listen(control::random_key());
  auto next_rendezvous = std::make_unique<control::SurvivorRendezvous>();
  auto const& key = plane->key();
  auto const payloads =
      state.survivor_rendezvous->run(state.recovery_config(failure),
                                     encode_survivor(SurvivorInfo{plane->port(),
                                                                  next_rendezvous->port(),
                                                                  {key.begin(), key.end()},
                                                                  state.gpu && state.gpu->can_shrink()}),
                                     deadline);

  auto survivors = collect_survivors(state.records, payloads);
  auto const rank = static_cast<int>(std::distance(payloads.begin(), payloads.find(state.context->rank)));
  state.set_members(std::move(survivors.records), rank);
  state.survivor_rendezvous = std::move(next_rendezvous);
  ++state.shrinks;
  if (state.size() > 1) {
    if (rank == 0) state.context->plane = std::move(plane);
    state.start_control_plane(deadline);
  }
  state.register_loss_handler();
  state.restart_telemetry();
  if (state.gpu && survivors.all_can_shrink)
    state.world =
        state.gpu->shrink_world(detail::CommunicatorGroup(state.context, "world"), survivors.lost, deadline);
  else if (state.gpu)
    state.gpu->abort_all();
  log::debug("shrink: {} ranks are left", state.size());
}

control::Failure Job::State::require_loss() const {
  require_joined("shrink");
  if (!options.tolerate_rank_loss)
    throw Error(ErrorCode::usage, "shrink: the job was not joined with JoinOptions::tolerate_rank_loss");
  auto const failure = context->plane ? context->plane->failure() : std::nullopt;
  if (!failure) throw Error(ErrorCode::usage, "shrink: no rank was lost");
  // A rank that nothing monitors any more (its launcher has ended) must end.
  if (failure->code != ErrorCode::lost_rank || context->plane->orphaned())
    throw Error(failure->code, failure->text, true);
  return *failure;
}

void Job::State::drop_communicators() {
  world.reset();
  host_world.reset();
  intra_node.reset();
  inter_node.reset();
  stop_telemetry();
  context->plane->abort_connections();
}

control::RecoveryConfig Job::State::recovery_config(const control::Failure& failure) const {
  control::RecoveryConfig config;
  config.rank = context->rank;
  const JoinRecord& self = records[static_cast<std::size_t>(context->rank)];
  for (const auto& record : records) {
    config.names.push_back(bootstrap::describe_rank(record.hello));
    config.addresses.push_back(bootstrap::addresses_to_try(record, self));
    config.ports.push_back(record.recovery_port);
  }
  config.key = derive_recovery_key(records, shrinks);
  if (failure.lost >= 0 && failure.lost != context->rank)
    (failure.confirmed_dead ? config.ended : config.silent).insert(failure.lost);
  return config;
}

void Job::State::set_members(std::vector<JoinRecord> remaining, int rank) {
  auto next = std::make_shared<detail::JobContext>();
  next->operation_timeout = context->operation_timeout;
  next->timings = context->timings;
  next->rank = rank;
  for (std::size_t r = 0; r < remaining.size(); ++r) {
    remaining[r].hello.rank = static_cast<int>(r);
    next->roster.push_back(remaining[r].hello);
  }
  records = std::move(remaining);
  host_map = bootstrap::map_ranks_to_hosts(next->roster);
  context = std::move(next);
  log::set_rank(rank);
}

// Rank 0 does not gather telemetry any more after a loss.
void Job::State::restart_telemetry() {
  JoinRecord request = records.front();
  request.timeline = request.gathers_telemetry = false;
  telemetry =
      std::make_unique<observe::Telemetry>(request, context->roster, context->rank, context->plane, nullptr);
}

}  // namespace muster
