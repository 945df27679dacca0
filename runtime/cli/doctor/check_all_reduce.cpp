// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "bench/measure.hpp"
#include "bench/sizes.hpp"
#include "control_plane/control_plane.hpp"
#include "doctor/checks.hpp"
#include "doctor/gathered.hpp"
#include "job/job_internals.hpp"

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

// One measure on all ranks.
struct Worst {
  double seconds = 0;
  std::size_t wrong = 0;  // elements, of all ranks
  std::size_t elements = 0;
};

Worst worst_of(const std::vector<Measured>& all, Sample Measured::*which) {
  Worst worst;
  for (const auto& one : all) {
    worst.seconds = std::max(worst.seconds, (one.*which).single.median);
    worst.wrong += (one.*which).wrong;
    worst.elements += (one.*which).elements;
  }
  return worst;
}

Row timed(const std::string& subject, const Worst& worst, int ranks) {
  auto const rate = bench::algorithm_bandwidth(bytes, worst.seconds);
  Row row{Verdict::pass, subject,
          fmt::format("{} in {:.3f} ms, bus bandwidth {:.2f} GB/s, sums right", bench::size_text(bytes),
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

// What NCCL would refuse, fail or hang on, after which there would be no job to examine.
const bootstrap::Finding* fatal_one(const Patient& patient) {
  auto const found = std::find_if(patient.findings.begin(), patient.findings.end(),
                                  [](const bootstrap::Finding& finding) { return finding.fatal; });
  return found == patient.findings.end() ? nullptr : &*found;
}

}  // namespace

std::vector<Row> check_all_reduce(Patient& patient) {
  Job& job = patient.job;
  bool const gpu = job.on_gpu();
  auto const kind = gpu ? "all-reduce (NCCL)" : "all-reduce (host)";
  if (auto const* const fatal = fatal_one(patient); gpu && fatal != nullptr) {
    return {{Verdict::skipped, kind,
             fmt::format("not tried: NCCL would refuse, fail or hang over what failed above ({})",
                         fatal->subject),
             "mend that first; --device host tries the hosts' memory meanwhile"}};
  }
  auto world = job.world();
  Measured mine;
  mine.world = measure(world, gpu);
  auto const node = world.split(job.host_index());
  mine.node = measure(node, gpu);
  patient.all_reduce_on_node = mine.node.single.median;
  auto const across = world.split(job.local_rank() == 0 ? 0 : 1 + job.host_index());
  if (job.local_rank() == 0) mine.across = measure(across, gpu);
  auto const all = gathered(job, "doctor all-reduce", all_ranks(job), mine);
  std::vector<Row> rows{timed(kind, worst_of(all, &Measured::world), job.size())};
  if (job.host_count() == 1) return rows;
  rows.push_back(timed(std::string(kind) + ", per node", worst_of(all, &Measured::node), job.local_size()));
  rows.push_back(timed(std::string(kind) + ", across", worst_of(all, &Measured::across), job.host_count()));
  return rows;
}

}  // namespace muster::cli::doctor
