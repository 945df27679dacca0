// SPDX-License-Identifier: Apache-2.0
#include "step/step_output.hpp"

#include <cstdlib>
#include <string>
#include <system_error>

#include "gpus/gpu_assignment.hpp"
#include "log.hpp"
#include "placement/report/report_json.hpp"
#include "report/report_daemon.hpp"
#include "report/report_sender.hpp"
#include "slurm/nvlink_domain.hpp"

extern "C" {
#include <slurm/spank.h>
}

namespace muster::spank {

namespace {

placement::Placement actual_placement(const Step& step, const RowClaims& claims) {
  placement::Placement actual;
  actual.warnings = step.placement.warnings;
  actual.notes = step.placement.notes;
  for (std::size_t task = 0; task < step.placement.tasks.size(); ++task) {
    const ClaimedRow& claimed = claims.claimed_by(task);
    std::vector<placement::PlacedGpu> gpus;
    for (std::size_t i = 0; i < step.gpus.all.size() && i < ClaimedRow::most_gpus; ++i)
      if (claimed.gpus[i]) gpus.push_back(step.gpus.all[i]);
    actual.tasks.push_back(placement_for_gpus(step.placement, claimed.row, static_cast<int>(task), gpus));
  }
  return actual;
}

void append(std::vector<std::string>& lines, const std::vector<std::string>& more) {
  lines.insert(lines.end(), more.begin(), more.end());
}

placement::NodeReport make_report(const Step& step, const placement::Placement& actual,
                                  const std::vector<int>& ranks, const TaskGpus& found,
                                  const placement::GetEnv& get_env) {
  auto report = placement::node_report(step.node, actual, ranks, step.plan_milliseconds);
  if (step.options.parts.gpu && !step.gpus.all.empty()) {
    const VisibleChoice choice = choose_visibility(step, found);
    report.shown = found.unnamed                    ? "the MIG instance that CUDA chooses"
                   : choice.visible == Visible::own ? "its own GPUs"
                                                    : "all GPUs of the step, its own at its local rank";
    report.shown_reason = choice.reason;
    if (const auto warning = index_warning(choice.visible, actual); !warning.empty())
      report.warnings.push_back(warning);
  }
  const auto domain =
      nvlink_domain(step.node, static_cast<int>(step.facts.nodes),
                    [&](const std::string& name) { return step.environment.effective_value(name, get_env); });
  append(report.notes, domain.notes);
  append(report.warnings, domain.warnings);
  for (std::size_t task = 0; step.options.explain && task < report.rows.size(); ++task)
    append(report.rows[task].reasons,
           step.environment.explain(actual.tasks[task], report.rows[task].rank, get_env));
  return report;
}

void send_or_print(const Step& step, const placement::NodeReport& report) {
  if (step.report_address && send_report(*step.report_address, report)) return;
  std::string table = placement::merge_reports({report}, 1, step.options.explain);
  table.pop_back();                      // the log ends the line
  slurm_spank_log("%s", table.c_str());  // in one piece, so that the tables of several nodes do not mix
}

std::string plan_json(const Step& step, const placement::Placement& actual, const std::vector<int>& ranks,
                      const TaskGpus& found, const placement::GetEnv& get_env) {
  std::vector<std::vector<placement::Variable>> environments(actual.tasks.size());
  for (std::size_t i = 0; step.options.parts.env && i < environments.size(); ++i) {
    const auto& task = actual.tasks[i];
    environments[i] =
        step.environment.decide(task, ranks[i], choose_shown_gpus(step, task, found), get_env).set;
  }
  return placement::report_json(step.node, actual, environments);
}

}  // namespace

void start_report_collector(spank_handle* spank, bool explain) {
  static bool started = false;  // this is called for each component of a heterogeneous step
  if (started) return;
  started = true;
  unsetenv(report_address_variable);
  std::uint32_t nodes = 0;
  if (spank_get_item(spank, S_JOB_NNODES, &nodes) != ESPANK_SUCCESS) return;
  try {
    const auto address = start_report_daemon(static_cast<int>(nodes), explain);
    setenv(report_address_variable, address.to_string().c_str(), 1);
  } catch (const std::system_error& error) {
    log_detail("muster: %s; each node prints its own table", error.what());
  }
}

void prepare_output(Step& step, const placement::GetEnv& get_env) {
  step.report_address = ReportAddress::parse(get_env(report_address_variable).value_or(""));
  if (!step.options.json) return;
  const SlurmFacts& facts = step.facts;
  step.plan_file.emplace(
      plan_file_path({*step.options.json, facts.job_id, facts.step_id, facts.host, facts.nodes == 1}));
}

void write_output(const Step& step, const RowClaims& claims, const TaskGpus& found,
                  const placement::GetEnv& get_env, const NodeRoot& root) try {
  const bool table = step.options.report || step.options.explain;
  if (!table && !step.plan_file) return;
  const placement::Placement actual = actual_placement(step, claims);
  std::vector<int> ranks;
  for (std::size_t task = 0; task < actual.tasks.size(); ++task)
    ranks.push_back(claims.claimed_by(task).rank);
  if (table) send_or_print(step, make_report(step, actual, ranks, found, get_env));
  if (step.plan_file)
    step.plan_file->write(plan_json(step, actual, ranks, found, get_env), parse_umask(get_env("SLURM_UMASK")),
                          root);
} catch (const std::exception& error) {
  log_to_user("muster: %s: %s", step.facts.host.c_str(), error.what());
}

}  // namespace muster::spank
