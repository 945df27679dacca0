// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "bench/measure.hpp"
#include "bench/sizes.hpp"
#include "control/plane.hpp"
#include "doctor/checks.hpp"
#include "job/job_inside.hpp"

namespace muster::cli::doctor {
namespace {

using bench::Meter;
using bench::Sample;

constexpr std::size_t bytes = 1u << 20;

struct Measured {
  Sample node;    ///< among the ranks of the host
  Sample across;  ///< among the hosts' first ranks
  Sample world;
};
static_assert(std::is_trivially_copyable_v<Measured>);

Sample measure(const Communicator& communicator, bool gpu) {
  bench::Plan plan;
  plan.check = true;
  plan.gpu = gpu;
  return Meter(communicator, plan, bytes).measure(bytes);
}

std::vector<Measured> gathered(Job& job, const Measured& mine) {
  auto* const plane = detail::JobInside::plane(job);
  if (plane == nullptr) return {mine};
  control::Blob blob(sizeof mine);
  std::memcpy(blob.data(), &mine, sizeof mine);
  std::vector<int> everyone;
  for (const auto& hello : job.roster()) everyone.push_back(hello.rank);
  std::vector<Measured> all;
  for (const auto& one : plane->gather("doctor all-reduce", everyone, blob, std::chrono::seconds(60))) {
    Measured measured;
    if (one.size() == sizeof measured) std::memcpy(&measured, one.data(), sizeof measured);
    all.push_back(measured);
  }
  return all;
}

Row timed(const std::string& subject, double seconds, int ranks, std::size_t wrong) {
  auto const rate = bench::algorithm_bandwidth(bytes, seconds);
  Row row{Verdict::pass, subject,
          fmt::format("{} in {:.3f} ms, bus bandwidth {:.2f} GB/s, sums right", bench::size_text(bytes),
                      seconds * 1e3, rate * bench::bus_factor(bench::Operation::all_reduce, ranks)),
          ""};
  if (wrong > 0) {
    row = {Verdict::fail, subject, fmt::format("{} elements of {} are wrong", wrong, bytes / sizeof(float)),
           "memory, adapter or cable is broken: drain the nodes one by one (muster bench --check)"};
  }
  return row;
}

}  // namespace

std::vector<Row> check_all_reduce(Patient& patient) {
  Job& job = patient.job;
  bool const gpu = job.on_gpu();
  auto const kind = gpu ? "all-reduce (NCCL)" : "all-reduce (host)";
  auto world = job.world();
  Measured mine;
  mine.world = measure(world, gpu);
  auto const node = world.split(job.host_index());
  mine.node = measure(node, gpu);
  patient.all_reduce_on_node = mine.node.single.median;
  auto const across = world.split(job.local_rank() == 0 ? 0 : 1 + job.host_index());
  if (job.local_rank() == 0) mine.across = measure(across, gpu);
  auto const all = gathered(job, mine);
  auto const largest = [&](Sample Measured::*which) {
    std::pair<double, std::size_t> worst;
    for (const auto& one : all) {
      worst.first = std::max(worst.first, (one.*which).single.median);
      worst.second += (one.*which).wrong;
    }
    return worst;
  };
  std::vector<Row> rows;
  auto const [seconds, wrong] = largest(&Measured::world);
  rows.push_back(timed(kind, seconds, job.size(), wrong));
  if (job.host_count() == 1) return rows;
  auto const [node_seconds, node_wrong] = largest(&Measured::node);
  rows.push_back(timed(std::string(kind) + ", per node", node_seconds, job.local_size(), node_wrong));
  auto const [across_seconds, across_wrong] = largest(&Measured::across);
  rows.push_back(timed(std::string(kind) + ", across", across_seconds, job.host_count(), across_wrong));
  return rows;
}

}  // namespace muster::cli::doctor
