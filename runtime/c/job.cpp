// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>

#include "c/call.hpp"
#include "muster/version.hpp"

namespace {

using muster::Error;
using muster::Fault;
using muster::c::call;
using muster::c::required;
using std::chrono::milliseconds;

static_assert(static_cast<int>(muster::Device::automatic) == MUSTER_DEVICE_AUTOMATIC &&
              static_cast<int>(muster::Device::cpu) == MUSTER_DEVICE_CPU &&
              static_cast<int>(muster::Device::cuda) == MUSTER_DEVICE_CUDA);

void check_abi(int built_with) {
  if (built_with == MUSTER_ABI_VERSION) return;
  throw Error(
      Fault::environment,
      fmt::format(
          "join: the program was built against version {} of muster.h's binary interface and libmuster "
          "{} has version {}: build the program again, or install the libmuster that it was built with",
          built_with, muster::version, MUSTER_ABI_VERSION));
}

// Copies as much of the caller's structure as both sides know. What it has beyond that must be zero, which no
// later member uses for a wish: the same rule as Linux's copy_struct_from_user().
muster_join_options known_part(const muster_join_options& given) {
  muster_join_options known = MUSTER_JOIN_OPTIONS_DEFAULT;
  if (given.size < sizeof given.size)
    throw Error(Fault::usage,
                "join: muster_join_options.size is not set; begin with MUSTER_JOIN_OPTIONS_DEFAULT");
  std::memcpy(&known, &given, std::min(given.size, sizeof known));
  auto const* const bytes = reinterpret_cast<const char*>(&given);
  for (std::size_t at = sizeof known; at < given.size; ++at) {
    if (bytes[at] == 0) continue;
    throw Error(
        Fault::usage,
        fmt::format(
            "join: muster_join_options has options that libmuster {} does not know (size {}, here {})",
            muster::version, given.size, sizeof known));
  }
  return known;
}

muster::JoinOptions options_from(const muster_join_options* given) {
  muster::JoinOptions options;
  if (given == nullptr) return options;
  auto const known = known_part(*given);
  if (known.device < MUSTER_DEVICE_AUTOMATIC || known.device > MUSTER_DEVICE_CUDA || known.reserved != 0) {
    throw Error(Fault::usage,
                fmt::format("join: device {} and reserved {} in muster_join_options; a device is 0, 1 or 2 "
                            "and reserved is 0",
                            known.device, known.reserved));
  }
  options.deadline = milliseconds(known.deadline_ms);
  options.operation_timeout = milliseconds(known.operation_timeout_ms);
  options.silence = milliseconds(known.silence_ms);
  options.device = static_cast<muster::Device>(known.device);
  return options;
}

template <typename Question>
auto ask(const muster_job* job, const Question& question, decltype(question(job->job)) otherwise) noexcept {
  return job == nullptr ? otherwise : question(job->job);
}

}  // namespace

int muster_join_abi(int abi_version, const muster_join_options* options, muster_job** job) {
  return call([&] {
    required(job, "muster_join", "place for the job") = nullptr;
    check_abi(abi_version);
    *job = new muster_job{muster::Job::join(options_from(options))};
  });
}

int muster_leave(muster_job* job) {
  return call([&] { required(job, "muster_leave", "job").job.leave(); });
}

void muster_abandon(muster_job* job) {
  if (job != nullptr) job->job.abandon();
}

void muster_job_free(muster_job* job) { delete job; }

int muster_rank(const muster_job* job) {
  return ask(
      job, [](const muster::Job& its) { return its.rank(); }, -1);
}
int muster_size(const muster_job* job) {
  return ask(
      job, [](const muster::Job& its) { return its.size(); }, -1);
}
int muster_local_rank(const muster_job* job) {
  return ask(
      job, [](const muster::Job& its) { return its.local_rank(); }, -1);
}
int muster_local_size(const muster_job* job) {
  return ask(
      job, [](const muster::Job& its) { return its.local_size(); }, -1);
}
int muster_host_index(const muster_job* job) {
  return ask(
      job, [](const muster::Job& its) { return its.host_index(); }, -1);
}
int muster_host_count(const muster_job* job) {
  return ask(
      job, [](const muster::Job& its) { return its.host_count(); }, -1);
}
int muster_on_gpu(const muster_job* job) {
  return ask(
      job, [](const muster::Job& its) { return its.on_gpu() ? 1 : 0; }, -1);
}
const char* muster_bootstrap(const muster_job* job) {
  return ask(
      job, [](const muster::Job& its) { return its.bootstrap(); }, nullptr);
}

int muster_roster_entry(const muster_job* job, int rank, muster_hello* hello) {
  return call([&] {
    auto const& roster = required(job, "muster_roster_entry", "job").job.roster();
    auto& place = required(hello, "muster_roster_entry", "place for the entry");
    if (rank < 0 || rank >= static_cast<int>(roster.size()))
      throw Error(Fault::usage,
                  fmt::format("muster_roster_entry: rank {} is not in 0 … {}", rank, roster.size() - 1));
    if (place.size < sizeof place.size)
      throw Error(Fault::usage, "muster_roster_entry: muster_hello.size is not set to sizeof(muster_hello)");
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
    std::memcpy(hello, &all, std::min(place.size, sizeof all));
  });
}

int muster_barrier(muster_job* job, const char* name, int64_t deadline_ms) {
  return call([&] {
    auto& its = required(job, "muster_barrier", "job").job;
    its.barrier(&required(name, "muster_barrier", "name"), milliseconds(deadline_ms));
  });
}

int muster_world(muster_job* job, muster_communicator** communicator) {
  return call([&] {
    required(communicator, "muster_world", "place for the communicator") = nullptr;
    *communicator = new muster_communicator{required(job, "muster_world", "job").job.world()};
  });
}

int muster_node(muster_job* job, muster_communicator** communicator) {
  return call([&] {
    required(communicator, "muster_node", "place for the communicator") = nullptr;
    *communicator = new muster_communicator{required(job, "muster_node", "job").job.node()};
  });
}

int muster_across_nodes(muster_job* job, muster_communicator** communicator) {
  return call([&] {
    required(communicator, "muster_across_nodes", "place for the communicator") = nullptr;
    *communicator = new muster_communicator{required(job, "muster_across_nodes", "job").job.across_nodes()};
  });
}

int muster_host_world(muster_job* job, muster_communicator** communicator) {
  return call([&] {
    required(communicator, "muster_host_world", "place for the communicator") = nullptr;
    *communicator = new muster_communicator{required(job, "muster_host_world", "job").job.host_world()};
  });
}
