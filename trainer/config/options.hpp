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

namespace muster {

/// Sizes of a GPT that were set by single options.
struct GptShape {
  std::optional<int> layers, heads, width, context, vocabulary;
  bool operator==(const GptShape&) const = default;
};

/// All settings from the settings file, the environment and the command line; see `muster-train --help`.
struct Options {
  std::string data = "/usr/share/common-licenses";
  double validation_fraction = 0.1;
  std::int64_t validation_tokens = 0;  ///< most held-out tokens to validate on; 0: all

  std::string model_name = "small";  ///< see --model
  GptShape shape;
  models::GptConfig model;  ///< for a GPT: the named size with `shape` applied

  double width_multiplier = 1;  ///< of mobilenet-v1
  int image_size = 0;           ///< pixels in each direction; 0: those of the data
  bool augment = true;          ///< crop and mirror coloured images

  int batch = 12;
  std::int64_t steps = 2000;
  double learning_rate = 3e-3, min_learning_rate = 1e-4;
  std::int64_t warmup = 100;
  AdamwSettings adamw;
  std::uint64_t seed = 1;
  std::string dtype = "fp32";  ///< or "bf16": type that the model computes in
  bool deterministic = false;
  bool autotune = true;
  int chunk = 1;
  bool shard_optimizer = false;
  bool sync_batch_norm = false;

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

/// Sets `model` from the name and the shape, and the learning rates that `origins` does not contain.
/// @throws muster::Error(ErrorCode::usage) when values contradict each other.
void finalize_options(Options& options);

/// One line for each setting that has less effect in this run than its name says, depending on defaults,
/// ranks or data. finalize_options() refuses settings that can never have an effect.
std::vector<std::string> setting_warnings(const Options& options, int ranks, std::uint64_t samples_per_epoch);

}  // namespace muster
