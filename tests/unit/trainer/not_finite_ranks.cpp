// SPDX-License-Identifier: Apache-2.0
// On several ranks: when the gradients of one are not finite, every rank takes the same decision, names the
// same rank and samples, and goes on from the same parameters.
#include <cstdio>
#include <limits>

#include "agreement.hpp"
#include "model_fixture.hpp"
#include "not_finite.hpp"
#include "replica.hpp"
#include "temporary_folder.hpp"

using namespace muster;

namespace {

int failures = 0;
void require(bool fine, int rank, const char* what) {
  if (fine) return;
  ++failures;
  std::fprintf(stderr, "FAILED on rank %d: %s\n", rank, what);
}

void skip_one(Job& job, const Workload& workload, int chunk, const std::string& samples) {
  auto compute = test_compute<float>();
  Communicator world = job.host_world();
  Agreement agreement(world);
  const int rank = job.rank(), broken = job.size() - 1, batch = 2 * job.size() + 1;
  Replica replica({{}, batch, 3, chunk}, workload, compute, world);
  replica.initialize();
  require(replica.step(0, 0, 1e-3, {}).finite, rank, "the first step is finite");
  const std::uint64_t before = replica.parameter_hash();
  float& parameter = replica.tensors().parameters[0];
  const float good = parameter;
  if (rank == broken) parameter = std::numeric_limits<float>::infinity();
  const StepResult result = replica.step(1, batch, 1e-3, {});
  parameter = good;
  require(!result.finite, rank, "every rank learns of it");
  require((result.not_finite.count() > 0) == (rank == broken), rank,
          "only the broken rank's samples are meant");
  require(replica.parameter_hash() == before, rank, "nothing was updated");
  const std::string expected = "on rank " + std::to_string(broken) + " (" +
                               job.roster()[static_cast<std::size_t>(broken)].host + "), " + samples;
  const std::string named = name_not_finite(agreement, job.roster(), result);
  require(named == expected, rank, (named + " is not " + expected).c_str());
  require(replica.step(2, 2 * batch, 1e-3, {}).finite, rank, "it goes on");
  require(agreement.differing_ranks(replica.parameter_hash()).empty(), rank, "the ranks are the same");
}

}  // namespace

int main() {
  const TemporaryFolder folder;
  std::string text;
  for (int i = 0; i < 400; ++i) text += "the quick brown fox jumps over the lazy dog; ";
  write_file(folder / "text", text);
  Options options;
  options.data = (folder / "text").string();
  options.model = {1, 2, 32, 24};
  const auto workload = read_workload(options);
  Job job = Job::join({.device = Device::cpu});
  if (job.size() != 3) return 2;
  // Seven samples a step over three ranks; rank 2 has the last two, or of four chunks of two the last.
  skip_one(job, *workload, 0, "samples 12 to 13");
  skip_one(job, *workload, 2, "sample 13");
  job.leave();
  return failures == 0 ? 0 : 1;
}
