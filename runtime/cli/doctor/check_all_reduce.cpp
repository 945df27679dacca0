// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "bench/measure.hpp"
#include "bench/sizes.hpp"
#include "control_plane/control_plane.hpp"
#include "doctor/checks.hpp"
#include "doctor/gather_from_ranks.hpp"
#include "job/job_internals.hpp"

namespace muster::cli::doctor {
namespace {

using bench::Meter;
using bench::Sample;

constexpr std::size_t bytes = 1u << 20;

struct Measured {
  Sample node;    ///< over the ranks of the host
  Sample across;  ///< over the hosts' first ranks
  Sample world;
};
static_assert(std::is_trivially_copyable_v<Measured>);

Sample measure(const Communicator& communicator, bool gpu) {
  bench::Plan plan;
  plan.check = true;
  plan.gpu = gpu;
  return Meter(communicator, plan, bytes).measure(bytes);
}

// One measurement over all ranks.
struct Worst {
  double seconds = 0;
  std::size_t wrong = 0;  // elements, of all ranks
  std::size_t elements = 0;
};

Worst find_worst(const std::vector<Measured>& all, Sample Measured::*which) {
  Worst worst;
  for (const auto& one : all) {
    worst.seconds = std::max(worst.seconds, (one.*which).single.median);
    worst.wrong += (one.*which).wrong;
    worst.elements += (one.*which).elements;
  }
  return worst;
}

Row timing_row(const std::string& subject, const Worst& worst, int ranks) {
  auto const rate = bench::algorithm_bandwidth(bytes, worst.seconds);
  Row row{Verdict::pass, subject,
          fmt::format("{} in {:.3f} ms, bus bandwidth {:.2f} GB/s, sums right", bench::format_size(bytes),
                      worst.seconds * 1e3, rate * bench::bus_factor(bench::Operation::all_reduce, ranks)),
          ""};
  if (worst.wrong > 0) {
    row = {Verdict::fail, subject,
           fmt::format("{} of {} elements on {} ranks are wrong", worst.wrong, worst.elements,
                       worst.elements / (bytes / sizeof(float))),
           "memory, adapter or cable is broken: drain the nodes one by one (muster bench --check)"};
  }
  return row;
}

// A finding on which NCCL would report an error, fail or hang, so that no job would be left to check.
const bootstrap::Finding* find_fatal(const DoctorContext& context) {
  auto const found = std::find_if(context.findings.begin(), context.findings.end(),
                                  [](const bootstrap::Finding& finding) { return finding.fatal; });
  return found == context.findings.end() ? nullptr : &*found;
}

}  // namespace

std::vector<Row> check_all_reduce(DoctorContext& context) {
  Job& job = context.job;
  bool const gpu = job.on_gpu();
  auto const kind = gpu ? "all-reduce (NCCL)" : "all-reduce (host)";
  if (auto const* const fatal = find_fatal(context); gpu && fatal != nullptr) {
    return {{Verdict::skipped, kind,
             fmt::format("not tried: NCCL would fail or hang because of a failed check above ({})",
                         fatal->subject),
             "fix that first; meanwhile --device host checks host memory"}};
  }
  auto world = job.world();
  Measured mine;
  mine.world = measure(world, gpu);
  auto const node = world.split(job.host_index());
  mine.node = measure(node, gpu);
  context.all_reduce_on_node = mine.node.single.median;
  auto const across = world.split(job.local_rank() == 0 ? 0 : 1 + job.host_index());
  if (job.local_rank() == 0) mine.across = measure(across, gpu);
  auto const all = gather_from_ranks(job, "doctor all-reduce", all_ranks(job), mine);
  std::vector<Row> rows{timing_row(kind, find_worst(all, &Measured::world), job.size())};
  if (job.host_count() == 1) return rows;
  rows.push_back(
      timing_row(std::string(kind) + ", per node", find_worst(all, &Measured::node), job.local_size()));
  rows.push_back(
      timing_row(std::string(kind) + ", across", find_worst(all, &Measured::across), job.host_count()));
  return rows;
}

}  // namespace muster::cli::doctor
