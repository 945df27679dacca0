// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "models/gpt.hpp"
#include "muster/job.hpp"
#include "optimizer.hpp"

namespace muster {

/// Everything that the command line says; see `muster-train --help`.
struct Options {
  std::string data = "/usr/share/common-licenses";
  double validation_fraction = 0.1;

  std::string model_name = "small";  ///< one of model_names()
  models::GptConfig model;           ///< of a GPT: the named size with what single flags say

  int batch = 12;
  std::int64_t steps = 2000;
  double learning_rate = 3e-3, min_learning_rate = 1e-4;
  std::int64_t warmup = 100;
  AdamwSettings adamw;
  std::uint64_t seed = 1;
  bool deterministic = false;
  int chunk = 1;

  std::string output = "muster-run";
  std::string resume = "auto";
  std::int64_t eval_every = 250, checkpoint_every = 500;
  double log_every = 5;

  Device device = Device::automatic;
  int threads = 0;
};

/// What --model takes.
const std::vector<std::string>& model_names();

/// The options, or nothing when --help or --version was asked for and printed.
/// @throws muster::Error(Fault::usage) with one line for people.
std::optional<Options> parse_options(int argc, const char* const* argv);

}  // namespace muster
