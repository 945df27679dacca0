// SPDX-License-Identifier: Apache-2.0
#include <cstdio>
#include <muster/muster.hpp>

int main() try {
  auto job = muster::Job::join({.device = muster::Device::cpu});
  float sum = static_cast<float>(job.rank() + 1);
  job.world().all_reduce(sum);
  std::printf("rank %d of %d: sum %g\n", job.rank(), job.size(), sum);
  job.leave();
} catch (const muster::Error& error) {
  if (!error.reported_elsewhere()) std::fprintf(stderr, "ten_lines: %s\n", error.what());
  return error.exit_code();
}
