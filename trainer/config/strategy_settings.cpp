// SPDX-License-Identifier: Apache-2.0
#include "config/strategy_settings.hpp"

#include <string>

#include "config/refusal.hpp"
#include "models/named_network.hpp"
#include "text/plural.hpp"

namespace muster {
namespace {

/// Refuses settings of another strategy.
void refuse_other_strategies(const Options& o) {
  const Options unset;
  const bool local = o.strategy == "local-sgd", nesterov = local && o.outer_optimizer == "nesterov";
  const std::string of_local = " has a meaning with --strategy=local-sgd only: leave it out, or add that";
  const std::string of_nesterov =
      " has a meaning with --strategy=local-sgd and --outer-optimizer=nesterov only: leave it out, or add "
      "these";
  refuse_ineffective(o, "sync-every", o.sync_every, unset.sync_every, local, of_local);
  refuse_ineffective(o, "worker-ranks", o.worker_ranks, unset.worker_ranks, local, of_local);
  refuse_ineffective(o, "worker-ranks", o.worker_ranks, unset.worker_ranks, o.elastic == unset.elastic,
                     " contradicts --elastic, whose workers are single ranks: leave one of them out");
  refuse_ineffective(o, "outer-optimizer", o.outer_optimizer, unset.outer_optimizer, local, of_local);
  refuse_ineffective(o, "outer-learning-rate", o.outer_learning_rate, unset.outer_learning_rate, nesterov,
                     of_nesterov);
  refuse_ineffective(o, "outer-momentum", o.outer_momentum, unset.outer_momentum, nesterov, of_nesterov);
  const std::string contradicts = " contradicts --strategy=local-sgd, ";
  refuse_ineffective(o, "shard-optimizer", o.shard_optimizer, false, !local,
                     contradicts + "whose ranks have optimizer states of their own: leave one of them out");
  refuse_ineffective(o, "sync-batch-norm", o.sync_batch_norm, false, !local,
                     contradicts + "whose ranks compute their steps by themselves: leave one of them out");
  refuse_ineffective(o, "elastic", o.elastic, unset.elastic, o.strategy == "data-parallel" || local,
                     " works with --strategy=data-parallel and local-sgd only: leave one of them out");
  refuse_ineffective(o, "join", o.join, false, o.elastic != unset.elastic,
                     " works with --elastic only: add that, as the run that is under way has it");
  refuse_ineffective(o, "shard-optimizer", o.shard_optimizer, false, o.strategy != "central-storage",
                     " contradicts --strategy=central-storage, whose hosts have one optimizer state each: "
                     "leave one of them out");
  require(
      !local || o.sync_every <= o.steps,
      fmt::format("{} is longer than {}: give fewer steps between averages, or more steps",
                  describe_setting(o, "sync-every", o.sync_every), describe_setting(o, "steps", o.steps)));
}

/// The same for parameter servers.
void refuse_with_parameter_server(const Options& o) {
  const Options unset;
  const bool serves = o.strategy == "parameter-server";
  const std::string of_servers =
      " has a meaning with --strategy=parameter-server only: leave it out, or add that";
  refuse_ineffective(o, "servers", o.servers, unset.servers, serves, of_servers);
  refuse_ineffective(o, "staleness", o.staleness, unset.staleness, serves, of_servers);
  refuse_ineffective(o, "wire-dtype", o.wire_dtype, unset.wire_dtype,
                     serves || (o.strategy == "local-sgd" && o.outer_optimizer == "nesterov"),
                     " has a meaning with --strategy=parameter-server, and with --strategy=local-sgd and "
                     "--outer-optimizer=nesterov, only: leave it out, or add these");
  refuse_ineffective(o, "prefetch", o.prefetch, unset.prefetch, serves && o.staleness != "0",
                     " has a meaning with --strategy=parameter-server and --staleness above 0 only: leave it "
                     "out, or add these");
  if (!serves) return;
  const std::string contradicts = " contradicts --strategy=parameter-server, ";
  refuse_ineffective(o, "shard-optimizer", o.shard_optimizer, false, false,
                     contradicts + "whose servers shard the optimizer: leave one of them out");
  refuse_ineffective(o, "sync-batch-norm", o.sync_batch_norm, false, false,
                     contradicts + "whose workers compute by themselves: leave one of them out");
  refuse_ineffective(o, "micro-batch", o.micro_batch, unset.micro_batch, false,
                     contradicts + "whose workers compute a task at once: leave it out");
  require(!o.deterministic || o.staleness == "0",
          "--deterministic contradicts --staleness=" + o.staleness +
              ", with which updates come in the order of arrival: leave one of them out");
  require(!o.deterministic || o.wire_dtype == "fp32",
          "--deterministic contradicts --wire-dtype=" + o.wire_dtype +
              ", with which the bits are not those of data parallelism: leave one of them out");
}

/// Refuses settings of pipelines that have no effect, or contradict others.
void check_pipeline(const Options& o) {
  const Options unset;
  const bool is_pipeline = o.strategy == "pipeline", interleaved = o.pipeline_schedule == "interleaved-1f1b";
  const std::string of_pipeline = " has a meaning with --strategy=pipeline only: leave it out, or add that";
  refuse_ineffective(o, "stages", o.stages, unset.stages, is_pipeline, of_pipeline);
  refuse_ineffective(o, "micro-batches", o.micro_batches, unset.micro_batches, is_pipeline, of_pipeline);
  refuse_ineffective(o, "pipeline-schedule", o.pipeline_schedule, unset.pipeline_schedule, is_pipeline,
                     of_pipeline);
  refuse_ineffective(o, "virtual-stages", o.virtual_stages, unset.virtual_stages, is_pipeline && interleaved,
                     " has a meaning with --strategy=pipeline and --pipeline-schedule=interleaved-1f1b only: "
                     "leave it out, or add these");
  refuse_ineffective(o, "balance", o.balance, unset.balance, is_pipeline, of_pipeline);
  refuse_ineffective(o, "recompute", o.recompute, false, !is_pipeline || o.pipeline_schedule != "zb-h1",
                     " contradicts --pipeline-schedule=zb-h1, which computes weight gradients from the kept "
                     "activations: leave one of them out");
  refuse_ineffective(o, "micro-batches", o.micro_batches, unset.micro_batches, !o.deterministic,
                     " has no effect with --deterministic, where a micro-batch is a --chunk: leave it out");
  refuse_ineffective(o, "micro-batch", o.micro_batch, unset.micro_batch, !is_pipeline,
                     " has no effect with --strategy=pipeline: give --micro-batches instead");
  const bool is_gpt = !models::is_image_network(o.model_name);
  require(!is_pipeline || !is_gpt || o.stages * o.virtual_stages <= o.model.layers,
          fmt::format("--stages {}{} are more than the {} of the model", o.stages,
                      o.virtual_stages > 1 ? fmt::format(" of --virtual-stages {}", o.virtual_stages) : "",
                      plural(o.model.layers, "layer")));
  require(!is_pipeline || o.stages != 1,
          "--stages 1 is no pipeline: leave out --strategy=pipeline, or give at least 2");
}

}  // namespace

bool offloads_tensors(const Options& o) {
  return o.strategy == "central-storage" || o.strategy == "parameter-server";
}

void check_strategy_settings(const Options& o) {
  refuse_other_strategies(o);
  refuse_with_parameter_server(o);
  check_pipeline(o);
}

}  // namespace muster
