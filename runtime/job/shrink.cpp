// SPDX-License-Identifier: Apache-2.0
#include "job/shrink.hpp"

#include <fmt/format.h>
#include <sodium.h>

#include <iterator>
#include <optional>
#include <utility>

#include "cbor.hpp"
#include "log.hpp"

namespace muster::detail {

using bootstrap::JoinRecord;
using std::chrono::milliseconds;

namespace {

// A secret that only the job's ranks can derive.
control::Key derive_recovery_key(const std::vector<JoinRecord>& records, int number) {
  auto const text = fmt::format("muster recovery {}", number);
  control::Key key{};
  const auto& of_job = records.front().key;
  crypto_generichash(key.data(), key.size(), reinterpret_cast<const unsigned char*>(text.data()), text.size(),
                     of_job.data(), of_job.size());
  return key;
}

// The records of the next job, by new rank.
std::vector<JoinRecord> collect_survivors(const std::vector<JoinRecord>& before,
                                          const control::SurvivorRendezvous::Payloads& payloads) {
  std::vector<JoinRecord> survivors;
  for (std::size_t rank = 0; rank < before.size(); ++rank) {
    auto const payload = payloads.find(static_cast<int>(rank));
    if (payload == payloads.end()) continue;
    auto const sent = read_cbor(payload->second, "a survivor's data");
    bool const is_new_rank_0 = survivors.empty();
    auto& record = survivors.emplace_back(before[rank]);
    record.port = sent.at("port").get<std::uint16_t>();
    record.local_socket = sent.at("local_socket").get<std::string>();
    record.recovery_port = sent.at("recovery_port").get<std::uint16_t>();
    record.key.clear();
    record.sealed_key.clear();
    if (is_new_rank_0) record.key = sent.at("key").get_binary();
  }
  return survivors;
}

// The job's rank loss; throws when there is none or the job cannot go on without the rank.
control::Failure require_loss(JobState& state) {
  auto const& plane = state.joined("shrink").context->plane;
  if (!state.options.tolerate_rank_loss)
    throw Error(ErrorCode::usage, "shrink: the job was not joined with JoinOptions::tolerate_rank_loss");
  auto const failure = plane ? plane->failure() : std::nullopt;
  if (!failure) throw Error(ErrorCode::usage, "shrink: no rank was lost");
  // A rank that nothing monitors any more (its launcher has ended) must end.
  if (failure->code != ErrorCode::lost_rank || plane->orphaned())
    throw Error(failure->code, failure->text, true);
  return *failure;
}

control::RecoveryConfig recovery_config(const JobState& state, const control::Failure& failure) {
  auto const& records = state.records;
  control::RecoveryConfig config;
  config.rank = state.context->rank;
  const JoinRecord& self = records[static_cast<std::size_t>(config.rank)];
  for (const auto& record : records) {
    config.names.push_back(bootstrap::describe_rank(record.hello));
    config.hosts.push_back(record.hello.host + ' ' + record.hello.boot_id);
    config.addresses.push_back(bootstrap::addresses_to_try(record, self));
    config.ports.push_back(record.recovery_port);
  }
  config.key = derive_recovery_key(records, state.shrinks);
  if (failure.lost >= 0 && failure.lost != config.rank)
    (failure.confirmed_dead ? config.ended : config.silent).insert(failure.lost);
  return config;
}

// Makes the ranks of `remaining` the job.
void set_members(JobState& state, std::vector<JoinRecord> remaining, int rank) {
  auto next = std::make_shared<JobContext>();
  next->operation_timeout = state.context->operation_timeout;
  next->timings = state.context->timings;
  next->rank = rank;
  for (std::size_t r = 0; r < remaining.size(); ++r) {
    remaining[r].hello.rank = static_cast<int>(r);
    next->roster.push_back(remaining[r].hello);
  }
  state.records = std::move(remaining);
  state.host_map = bootstrap::map_ranks_to_hosts(next->roster);
  state.context = std::move(next);
  log::set_rank(rank);
}

// Continues the job without the rank of `failure`, and without others that are lost by now. Returns the loss
// of a further rank before all have connected: then the same is to be done with the job's new members.
std::optional<control::Failure> continue_with_survivors(JobState& state, const control::Failure& failure,
                                                        const Deadline& deadline) {
  state.communicators.drop();
  if (auto const& gpu = state.communicators.gpu) gpu->abort_all();
  state.stop_telemetry();
  if (state.context->plane) state.context->plane->abort_connections();

  // Each rank may become the next rank 0.
  auto plane = control::ControlPlane::listen(control::random_key());
  auto next_rendezvous = std::make_shared<control::SurvivorRendezvous>();
  auto const listener = std::make_shared<control::LocalListener>();
  auto const& key = plane->key();
  // What the other survivors need if this rank becomes rank 0.
  nlohmann::json const mine{{"port", plane->port()},
                            {"local_socket", listener->name()},
                            {"recovery_port", next_rendezvous->port()},
                            {"key", nlohmann::json::binary({key.begin(), key.end()})}};
  auto const payloads =
      state.survivor_rendezvous->run(recovery_config(state, failure), write_cbor(mine), deadline);

  auto survivors = collect_survivors(state.records, payloads);
  auto const rank = static_cast<int>(std::distance(payloads.begin(), payloads.find(state.context->rank)));
  set_members(state, std::move(survivors), rank);
  state.earlier_rendezvous.push_back(std::exchange(state.survivor_rendezvous, std::move(next_rendezvous)));
  state.local_listener = listener;
  ++state.shrinks;
  if (state.size() > 1) {
    if (rank == 0) state.context->plane = std::move(plane);
    try {
      state.start_control_plane(deadline);
    } catch (const control::EndedRankError& error) {
      if (deadline.passed()) throw;
      log::debug("shrink: {}", error.what());
      return error.failure;
    } catch (const Error& error) {
      auto const& begun = state.context->plane;
      if (error.code() != ErrorCode::lost_rank || !begun || !begun->failure() || deadline.passed()) throw;
      log::debug("shrink: {}", error.what());
      return require_loss(state);
    }
  }
  return std::nullopt;
}

}  // namespace

void shrink(JobState& state, milliseconds wait) {
  Deadline const deadline(wait);
  std::optional<control::Failure> loss = require_loss(state);
  while (loss) loss = continue_with_survivors(state, *loss, deadline);
  state.register_loss_handler();
  state.restart_telemetry();
  log::debug("shrink: {} ranks are left", state.size());
}

}  // namespace muster::detail
