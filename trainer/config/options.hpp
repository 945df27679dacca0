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

/// What single options say of a GPT's size.
struct GptShape {
  std::optional<int> layers, heads, width, context, vocabulary;
  bool operator==(const GptShape&) const = default;
};

/// Everything that a file, the environment and the command line say; see `muster-train --help`.
struct Options {
  std::string data = "/usr/share/common-licenses";
  double validation_fraction = 0.1;
  std::int64_t validation_tokens = 0;  ///< at most; 0: all that is held out

  std::string model_name = "small";  ///< one of model_names()
  GptShape shape;
  models::GptConfig model;  ///< of a GPT: the named size with `shape`

  int batch = 12;
  std::int64_t steps = 2000;
  double learning_rate = 3e-3, min_learning_rate = 1e-4;
  std::int64_t warmup = 100;
  AdamwSettings adamw;
  std::uint64_t seed = 1;
  std::string dtype = "fp32";  ///< or "bf16": what the model computes in
  bool deterministic = false;
  int chunk = 1;
  bool shard_optimizer = false;

  std::string output = "muster-run";
  std::string resume = "auto";
  std::int64_t eval_every = 250, checkpoint_every = 500;
  std::int64_t keep = 2;                ///< checkpoints that stay
  std::int64_t stop_after_skipped = 5;  ///< updates skipped in a row
  std::string status;                   ///< file; empty: status.json in the output folder
  double log_every = 5;
  bool tensorboard = true;

  Device device = Device::automatic;
  int threads = 0;
  bool mfu = true;

  /// Where the settings came from that are not defaults, by their names: "run.toml:3", "MUSTER_TRAIN_STEPS"
  /// or "command line".
  std::map<std::string, std::string> origins;
};

/// The options, or nothing when --help, --version or --print-config was asked for and printed. What the
/// command line says comes before the environment (MUSTER_TRAIN_LEARNING_RATE is --learning-rate), that
/// before the file of --config (learning-rate = 0.01), and that before the defaults.
/// @throws muster::Error with one line for people: usage, or system when the file cannot be read.
std::optional<Options> parse_options(int argc, const char* const* argv);

/// Sets `model` from the name and the shape, and the learning rates that `origins` does not have by the name.
/// @throws muster::Error(ErrorCode::usage) when values contradict each other.
void settle_options(Options& options);

/// What --model takes.
const std::vector<std::string>& model_names();

}  // namespace muster
