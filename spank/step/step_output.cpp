// SPDX-License-Identifier: Apache-2.0
// The outputs of a step's placement that the user requested: a table, the reasons, a file. The last task of a
// node writes them, since it knows the claims of all tasks, runs as the user, and sees the files that the
// user's program will see.
#include "log.hpp"
#include "placement/report/report_json.hpp"
#include "slurm/nvlink_domain.hpp"
#include "step/plan_file.hpp"
#include "step/step.hpp"
#include "step/step_report.hpp"

extern "C" {
#include <slurm/spank.h>
}

namespace muster::spank {

// In user_init: reads what the tasks cannot read any more.
void Step::prepare_outputs(spank_handle* spank) {
  report_address_ = find_report_address(spank);
  if (!options_.json) return;
  std::uint32_t nodes = 0;
  spank_get_item(spank, S_JOB_NNODES, &nodes);
  plan_file_.emplace(
      plan_file_path({*options_.json, facts_.job_id, facts_.step_id, facts_.host, nodes == 1}));
}

placement::Placement Step::actual_placement() const {
  placement::Placement actual;
  actual.warnings = placement_.warnings;
  actual.notes = placement_.notes;
  for (std::size_t task = 0; task < placement_.tasks.size(); ++task) {
    const ClaimedRow& claimed = claims_.claimed_by(task);
    std::vector<placement::PlacedGpu> gpus;
    for (std::size_t i = 0; i < step_gpus_.size() && i < ClaimedRow::most_gpus; ++i)
      if (claimed.gpus[i]) gpus.push_back(step_gpus_[i]);
    actual.tasks.push_back(placement_for_gpus(placement_, claimed.row, static_cast<int>(task), gpus));
  }
  return actual;
}

placement::NodeReport Step::report(spank_handle* spank, const placement::Placement& actual,
                                   const FoundGpus& found) const {
  std::vector<int> ranks;
  for (std::size_t task = 0; task < actual.tasks.size(); ++task)
    ranks.push_back(claims_.claimed_by(task).rank);
  auto report = placement::node_report(node_, actual, ranks, plan_milliseconds_);
  if (options_.parts.gpu && !step_gpus_.empty()) {
    const VisibleChoice choice = choose_visibility(found);
    report.shown = found.unnamed                    ? "the MIG instance that CUDA chooses"
                   : choice.visible == Visible::own ? "its own GPUs"
                                                    : "all GPUs of the step, its own at its local rank";
    report.shown_reason = choice.reason;
    if (const auto warning = index_warning(choice.visible, actual); !warning.empty())
      report.warnings.push_back(warning);
  }
  std::uint32_t nodes = 0;
  spank_get_item(spank, S_JOB_NNODES, &nodes);
  const auto domain = nvlink_domain(node_, static_cast<int>(nodes), [&](const std::string& name) {
    return environment_.effective_value(spank, name);
  });
  report.notes.insert(report.notes.end(), domain.notes.begin(), domain.notes.end());
  report.warnings.insert(report.warnings.end(), domain.warnings.begin(), domain.warnings.end());
  for (std::size_t task = 0; options_.explain && task < report.rows.size(); ++task) {
    const auto lines = environment_.explain(spank, actual.tasks[task], report.rows[task].rank);
    report.rows[task].reasons.insert(report.rows[task].reasons.end(), lines.begin(), lines.end());
  }
  return report;
}

std::string Step::plan_json(spank_handle* spank, const placement::Placement& actual,
                            const FoundGpus& found) const {
  std::vector<std::vector<placement::Variable>> environments(actual.tasks.size());
  for (std::size_t i = 0; options_.parts.env && i < environments.size(); ++i)
    environments[i] = environment_
                          .decide(spank, actual.tasks[i], claims_.claimed_by(i).rank,
                                  choose_shown_gpus(actual.tasks[i], found))
                          .set;
  return placement::report_json(node_, actual, environments);
}

// A failure here must not end the step.
void Step::write_outputs(spank_handle* spank, const FoundGpus& found) const try {
  if (!options_.report && !options_.explain && !plan_file_) return;
  const placement::Placement actual = actual_placement();
  if (options_.report || options_.explain)
    send_or_print_report(report_address_, report(spank, actual, found), options_.explain);
  if (plan_file_)
    plan_file_->write(plan_json(spank, actual, found), parse_umask(job_variable(spank, "SLURM_UMASK")),
                      *root_);
} catch (const std::exception& error) {
  log_to_user("muster: %s: %s", facts_.host.c_str(), error.what());
}

}  // namespace muster::spank
