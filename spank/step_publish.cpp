// SPDX-License-Identifier: Apache-2.0
// What a step tells of its plan, as the user wished: a table, the reasons, a file.
#include "gpu_choice.hpp"
#include "placement/report_json.hpp"
#include "plan_file.hpp"
#include "step.hpp"
#include "step_report.hpp"

extern "C" {
#include <slurm/spank.h>
}

namespace muster::spank {

placement::NodeReport Step::report(spank_handle* spank, double plan_milliseconds) const {
  auto report = placement::node_report(node_, placement_, facts_.ranks, plan_milliseconds);
  for (std::size_t task = 0; wish_.explain && task < report.rows.size(); ++task) {
    const auto lines = environment_.explain(spank, placement_.tasks[task], report.rows[task].rank);
    report.rows[task].reasons.insert(report.rows[task].reasons.end(), lines.begin(), lines.end());
  }
  return report;
}

// The tasks are not there yet, nor what Slurm adds to each one's environment.
std::string Step::plan_json(spank_handle* spank) const {
  const auto gpus = addresses_of(minors_);
  const auto choice =
      gpu_choice(minors_, minors_, job_variable(spank, "CUDA_VISIBLE_DEVICES"), false);
  std::vector<std::vector<placement::Variable>> environments(placement_.tasks.size());
  for (std::size_t i = 0; wish_.parts.env && i < environments.size(); ++i)
    environments[i] =
        environment_.decide(spank, placement_.tasks[i], facts_.ranks[i], gpus, choice.set_by_slurm).set;
  return placement::report_json(node_, placement_, environments);
}

void Step::publish(spank_handle* spank, double plan_milliseconds) const {
  if (wish_.report || wish_.explain) deliver_report(spank, report(spank, plan_milliseconds), wish_.explain);
  if (!wish_.json) return;
  std::uint32_t nodes = 0;
  spank_get_item(spank, S_JOB_NNODES, &nodes);
  try {
    write_plan_file(plan_file_path({*wish_.json, facts_.job_id, facts_.step_id, facts_.host, nodes == 1}),
                    plan_json(spank), user_umask(job_variable(spank, "SLURM_UMASK")));
  } catch (const std::exception& error) {  // no reason to end a step
    slurm_spank_log("muster: %s: %s", facts_.host.c_str(), error.what());
  }
}

}  // namespace muster::spank
