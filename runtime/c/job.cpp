// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <climits>
#include <cstddef>

#include "c/call.hpp"
#include "c/structures.hpp"
#include "muster/version.hpp"

namespace {

using muster::Error;
using muster::ErrorCode;
using muster::c::call;
using muster::c::fill;
using muster::c::known_part;
using muster::c::parse_flag;
using muster::c::require_not_null;
using muster::c::require_size;
using std::chrono::milliseconds;

static_assert(static_cast<int>(muster::Device::automatic) == MUSTER_DEVICE_AUTOMATIC &&
              static_cast<int>(muster::Device::cpu) == MUSTER_DEVICE_CPU &&
              static_cast<int>(muster::Device::cuda) == MUSTER_DEVICE_CUDA);

void check_abi(int built_with) {
  if (built_with == MUSTER_ABI_VERSION) return;
  throw Error(
      ErrorCode::environment,
      fmt::format(
          "join: the program was built against version {} of muster.h's binary interface and libmuster "
          "{} has version {}: build the program again, or install the libmuster that it was built with",
          built_with, muster::version, MUSTER_ABI_VERSION));
}

// Both interfaces have the same defaults for options that a program does not set.
constexpr muster_join_options join_defaults = MUSTER_JOIN_OPTIONS_DEFAULT;
constexpr muster::JoinOptions cpp_defaults;
static_assert(join_defaults.deadline_ms == cpp_defaults.deadline.count() &&
              join_defaults.operation_timeout_ms == cpp_defaults.operation_timeout.count() &&
              join_defaults.heartbeat_timeout_ms == cpp_defaults.heartbeat_timeout.count() &&
              join_defaults.device == static_cast<int>(cpp_defaults.device) &&
              join_defaults.tolerate_rank_loss == int{cpp_defaults.tolerate_rank_loss} &&
              join_defaults.stall_warning_ms == cpp_defaults.stall_warning.count() &&
              join_defaults.abort_grace_ms == cpp_defaults.abort_grace.count() &&
              join_defaults.cpu_ranks == cpp_defaults.cpu_ranks);
// Bytes between members, which callers leave unset, would look like options.
static_assert(sizeof(muster_join_options) ==
              offsetof(muster_join_options, cpu_ranks) + sizeof join_defaults.cpu_ranks);

muster::JoinOptions convert_options(const muster_join_options* given) {
  if (given == nullptr) return {};
  auto const known = known_part(*given, join_defaults, "join", "muster_join_options");
  if (known.device < MUSTER_DEVICE_AUTOMATIC || known.device > MUSTER_DEVICE_CUDA)
    throw Error(ErrorCode::usage,
                fmt::format("join: device {} in muster_join_options is not 0, 1 or 2", known.device));
  if (known.cpu_ranks < 0 || known.cpu_ranks > INT_MAX)
    throw Error(ErrorCode::usage, fmt::format("join: cpu_ranks is {}, not 0 or more", known.cpu_ranks));
  return {.deadline = milliseconds(known.deadline_ms),
          .operation_timeout = milliseconds(known.operation_timeout_ms),
          .heartbeat_timeout = milliseconds(known.heartbeat_timeout_ms),
          .device = static_cast<muster::Device>(known.device),
          .tolerate_rank_loss = parse_flag(known.tolerate_rank_loss, "join", "tolerate_rank_loss"),
          .stall_warning = milliseconds(known.stall_warning_ms),
          .abort_grace = milliseconds(known.abort_grace_ms),
          .cpu_ranks = static_cast<int>(known.cpu_ranks)};
}

template <typename Getter>
auto get_or(const muster_job* job, const Getter& getter, decltype(getter(job->job)) otherwise) noexcept {
  return job == nullptr ? otherwise : getter(job->job);
}

int get_communicator(muster_job* job, const char* function, muster_communicator** communicator,
                     muster::Communicator (muster::Job::*get)()) {
  return call([&] {
    require_not_null(communicator, function, "place for the communicator") = nullptr;
    *communicator = new muster_communicator{(require_not_null(job, function, "job").job.*get)()};
  });
}

}  // namespace

int muster_join_abi(int abi_version, const muster_join_options* options, muster_job** job) {
  return call([&] {
    require_not_null(job, "muster_join", "place for the job") = nullptr;
    check_abi(abi_version);
    *job = new muster_job{muster::Job::join(convert_options(options))};
  });
}

int muster_leave(muster_job* job) {
  return call([&] { require_not_null(job, "muster_leave", "job").job.leave(); });
}

void muster_abort(muster_job* job) {
  if (job != nullptr) job->job.abort();
}

void muster_job_free(muster_job* job) { delete job; }

int muster_rank(const muster_job* job) {
  return get_or(
      job, [](const muster::Job& its) { return its.rank(); }, -1);
}
int muster_size(const muster_job* job) {
  return get_or(
      job, [](const muster::Job& its) { return its.size(); }, -1);
}
int muster_local_rank(const muster_job* job) {
  return get_or(
      job, [](const muster::Job& its) { return its.local_rank(); }, -1);
}
int muster_local_size(const muster_job* job) {
  return get_or(
      job, [](const muster::Job& its) { return its.local_size(); }, -1);
}
int muster_host_index(const muster_job* job) {
  return get_or(
      job, [](const muster::Job& its) { return its.host_index(); }, -1);
}
int muster_host_count(const muster_job* job) {
  return get_or(
      job, [](const muster::Job& its) { return its.host_count(); }, -1);
}
int muster_on_gpu(const muster_job* job) {
  return get_or(
      job, [](const muster::Job& its) { return its.on_gpu() ? 1 : 0; }, -1);
}
const char* muster_bootstrap(const muster_job* job) {
  return get_or(
      job, [](const muster::Job& its) { return its.bootstrap(); }, nullptr);
}

int muster_roster_entry(const muster_job* job, int rank, muster_hello* hello) {
  return call([&] {
    auto const& roster = require_not_null(job, "muster_roster_entry", "job").job.roster();
    auto& place = require_not_null(hello, "muster_roster_entry", "place for the entry");
    if (rank < 0 || rank >= static_cast<int>(roster.size()))
      throw Error(ErrorCode::usage,
                  fmt::format("muster_roster_entry: rank {} is not in 0 … {}", rank, roster.size() - 1));
    require_size(place, "muster_roster_entry", "muster_hello");
    auto const& its = roster[static_cast<std::size_t>(rank)];
    muster_hello const all{place.size,
                           its.rank,
                           its.local_rank,
                           its.pid,
                           its.host.c_str(),
                           its.boot_id.c_str(),
                           its.address.c_str(),
                           its.gpu.c_str(),
                           its.gpu_uuid.c_str(),
                           its.cpus.c_str(),
                           its.muster_version.c_str(),
                           its.plugin_version.c_str(),
                           its.nccl_version.c_str()};
    fill(place, all);
  });
}

int muster_read_timings(const muster_job* job, muster_timings* timings) {
  return call([&] {
    auto const& its = require_not_null(job, "muster_read_timings", "job").job.timings();
    auto& place = require_not_null(timings, "muster_read_timings", "place for the timings");
    require_size(place, "muster_read_timings", "muster_timings");
    muster_timings const all{place.size,
                             its.join.count(),
                             its.bootstrap.count(),
                             its.gpu.count(),
                             its.exchange.count(),
                             its.plane.count(),
                             its.world.count(),
                             its.nccl_id.count(),
                             its.nccl_init.count(),
                             its.first_collective.count(),
                             its.intra_node.count(),
                             its.inter_node.count(),
                             its.host_world.count()};
    fill(place, all);
  });
}

int muster_barrier(muster_job* job, const char* name, int64_t deadline_ms) {
  return call([&] {
    auto& its = require_not_null(job, "muster_barrier", "job").job;
    its.barrier(&require_not_null(name, "muster_barrier", "name"), milliseconds(deadline_ms));
  });
}

int muster_world(muster_job* job, muster_communicator** communicator) {
  return get_communicator(job, "muster_world", communicator, &muster::Job::world);
}
int muster_intra_node(muster_job* job, muster_communicator** communicator) {
  return get_communicator(job, "muster_intra_node", communicator, &muster::Job::intra_node);
}
int muster_inter_node(muster_job* job, muster_communicator** communicator) {
  return get_communicator(job, "muster_inter_node", communicator, &muster::Job::inter_node);
}
int muster_host_world(muster_job* job, muster_communicator** communicator) {
  return get_communicator(job, "muster_host_world", communicator, &muster::Job::host_world);
}
