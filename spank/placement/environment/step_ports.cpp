// SPDX-License-Identifier: Apache-2.0
#include "placement/environment/step_ports.hpp"

#include <set>

namespace muster::placement {

namespace {
constexpr int first = 10000;
constexpr int block = 20;
constexpr int blocks = 1000;
constexpr int steps_of_a_job = 8;
// One framework process per GPU: no machine has more than 16 GPUs.
constexpr int workers = 16;
}  // namespace

StepPorts derive_ports(std::uint32_t job_id, std::uint32_t step_id) {
  const auto index = (std::uint64_t{job_id} * steps_of_a_job + step_id) % blocks;
  const int start = first + static_cast<int>(index) * block;
  StepPorts ports{start, start + 1, {}, "derived from job and step"};
  for (int local = 0; local < workers; ++local) ports.workers.push_back(start + block - workers + local);
  return ports;
}

StepPorts use_reserved(StepPorts ports, const std::vector<int>& reserved) {
  std::vector<int*> targets = {&ports.master, &ports.coordinator};
  for (int& worker : ports.workers) targets.push_back(&worker);
  std::set<int> used;
  for (const int port : reserved)
    if (port >= 1 && port <= 65535 && used.size() < targets.size() && !used.contains(port)) {
      *targets[used.size()] = port;
      used.insert(port);
    }
  if (used.empty()) return ports;
  ports.origin = "reserved by Slurm (SLURM_STEP_RESV_PORTS)";
  if (used.size() == 1) ports.coordinator = 0;  // the derived one may be another step's reserved one
  ports.workers.resize(used.size() > 2 ? used.size() - 2 : 0);
  return ports;
}

}  // namespace muster::placement
