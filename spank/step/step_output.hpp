// SPDX-License-Identifier: Apache-2.0
// The outputs of a step's placement that the user requested: a table on srun's standard error, the reasons, a
// file. The last task of a node writes them, since it knows the claims of all tasks, runs as the user, and
// sees the files that the user's program will see.
#pragma once

#include "step/step.hpp"
#include "step/task_gpus.hpp"

namespace muster::spank {

/// In srun, before it starts the step (local_user_init): starts the collecting process and puts its address
/// into srun's environment for the nodes. If that fails, each node prints its own table. So do the nodes of a
/// heterogeneous step's second and later components, because srun has made their environment before.
void start_report_collector(spank_handle* spank, bool explain);

/// In user_init: reads what the tasks cannot read any more.
void prepare_output(Step& step, const placement::GetEnv& get_env);

/// In the last task. Sends the report to srun's collector, or prints it if that fails. Logs one line if
/// something fails, since that must not end the step.
void write_output(const Step& step, const RowClaims& claims, const TaskGpus& found,
                  const placement::GetEnv& get_env, const NodeRoot& root);

}  // namespace muster::spank
