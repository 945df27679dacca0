// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "models/gpt.hpp"
#include "muster/job.hpp"
#include "optimizer/optimizer.hpp"
#include "optimizer/schedule.hpp"

namespace muster {

/// Sizes of a GPT that were set by single options.
struct GptShape {
  std::optional<int> layers, heads, width, context, vocabulary;
  // Of the Llama kind.
  std::optional<int> kv_heads, mlp_width;
  std::optional<double> rotary_theta, norm_epsilon;
  bool tied_output = false;
  bool operator==(const GptShape&) const = default;
};

/// All settings from the settings file, the environment and the command line; see `muster-train --help`.
struct Options {
  std::string data = "/usr/share/common-licenses";
  double validation_fraction = 0.1;
  std::string validation_data;         ///< pictures to validate with; empty: part of `data`
  std::string label_column;            ///< of a list of pictures; empty: "label"
  std::string on_bad_image = "stop";   ///< or "skip"
  std::int64_t validation_tokens = 0;  ///< most held-out tokens to validate on; 0: all

  std::string model_name = "small";  ///< see --model
  GptShape shape;
  std::string init_from;    ///< trained weights to start from (weights::open_weights()); empty: none
  models::GptConfig model;  ///< for a GPT: the named size with `shape` applied, or that of init_from

  double width_multiplier = 1;  ///< of mobilenet-v1
  int image_size = 0;           ///< pixels in each direction; 0: those of the data, or 224 of pictures
  bool augment = true;          ///< crop and mirror coloured images

  int batch = 12;
  std::int64_t steps = 2000;
  double learning_rate = 3e-3, min_learning_rate = 1e-4;
  std::int64_t warmup = 100;
  std::string schedule = "cosine";  ///< see --schedule
  std::string milestones;           ///< "32000,48000": of the schedule "step"
  double decay_factor = 0.1;        ///< at each milestone
  std::int64_t decay_steps = 0;     ///< of the schedule "wsd"; 0: a tenth of the steps
  std::string optimizer_name = "adamw";
  OptimizerSettings optimizer;
  double label_smoothing = 0;
  std::uint64_t seed = 1;
  std::string dtype = "fp32";  ///< or "bf16": type that the model computes in
  bool deterministic = false;
  bool autotune = true;
  int chunk = 1;
  int micro_batch = 0;  ///< 0: a rank computes all its samples at once
  bool shard_optimizer = false;
  bool recompute = false;  ///< see models::Gpt
  bool sync_batch_norm = false;

  std::string strategy = "data-parallel";   ///< see --strategy: how the ranks divide the training
  std::int64_t sync_every = 50;             ///< steps; of local-sgd, as all below
  int worker_ranks = 1;                     ///< that are a worker
  std::string outer_optimizer = "average";  ///< or "nesterov"
  double outer_learning_rate = 0.7, outer_momentum = 0.9;
  int servers = 1;                         ///< ranks; of parameter-server, as all below
  std::string staleness = "0";             ///< steps, or "unbounded"
  std::string wire_dtype = "fp32";         ///< or "bf16"; also of local-sgd
  bool prefetch = true;                    ///< see --prefetch
  int stages = 0;                          ///< of pipeline, as all below; 0: as many as ranks
  int micro_batches = 0;                   ///< 0: four for each rank of a pipeline
  std::string pipeline_schedule = "1f1b";  ///< see --pipeline-schedule
  int virtual_stages = 1;
  std::string balance = "flops";  ///< or "parameters", "memory", "time"
  std::string elastic = "0";      ///< an ElasticRange
  bool join = false;              ///< a run that is under way in `output`

  std::string output = "muster-run";
  std::string resume = "auto";
  std::int64_t eval_every = 250, checkpoint_every = 500;
  std::int64_t keep = 2;                ///< number of good checkpoints to keep
  std::int64_t stop_after_skipped = 5;  ///< updates skipped in a row
  std::string status;                   ///< file; empty: status.json in the output folder
  double log_every = 5;
  bool tensorboard = true;

  Device device = Device::automatic;
  int threads = 0;
  int data_threads = 0;  ///< that decode pictures; 0: the CPUs that do not compute, at least one
  bool mfu = true;

  /// Sources of the settings that are not defaults, by setting name: "run.toml:3", "MUSTER_TRAIN_STEPS" or
  /// "command line".
  std::map<std::string, std::string> origins;
};

/// The options; nothing when --help, --version or --print-config was given and its output is printed.
/// Precedence, highest first: command line, environment (MUSTER_TRAIN_LEARNING_RATE is --learning-rate),
/// settings file of --config (learning-rate = 0.01), defaults.
/// @throws muster::Error with one line for people: usage, or system when the file cannot be read.
std::optional<Options> parse_options(int argc, const char* const* argv);

/// Sets `model` from the name and the shape, the kind of the optimizer, and the defaults that depend on them
/// where `origins` does not contain the setting.
/// @throws muster::Error(ErrorCode::usage) when values contradict each other.
void finalize_options(Options& options);

/// The learning rate of each step. `options` are finalized.
Schedule learning_rate_schedule(const Options& options);

/// What a run has.
struct RunSizes {
  int ranks = 1;
  std::uint64_t samples_per_epoch = 0, held_out = 0;  ///< the latter in predictions
  std::int64_t predictions_per_sample = 1;
};

/// One line for each setting that has less effect in this run than its name says, or a cost that it does not
/// say, depending on defaults, ranks or data. finalize_options() refuses settings that can never have an
/// effect.
std::vector<std::string> setting_warnings(const Options& options, const RunSizes& sizes);

}  // namespace muster
