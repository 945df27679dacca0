// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <set>
#include <string>

#include "run/choose_device.hpp"

namespace muster {

struct EvaluateOptions {
  std::string from, data;
  double validation_fraction = 1;  ///< the part that training holds out; 1: all of the data
  int batch = 0;       ///< sequences or images at once; 0: about 1024 tokens (8192 on a GPU), or 256 images
  int context = 0;     ///< 0: the model's, at most 8192 for the Llama kind
  int image_size = 0;  ///< 0: that of the training
  std::string label_column, on_bad_image = "stop";  ///< as in Options
  Device device = Device::automatic;
  std::string dtype;  ///< empty: fp32, and bf16 on a GPU
  int threads = 0;
  std::set<std::string> given;  ///< names of the options that were given
};

/// Parses `muster-train evaluate …`; argv[0] is "evaluate". Nothing when --help was printed.
/// @throws muster::Error(ErrorCode::usage)
std::optional<EvaluateOptions> parse_evaluate_options(int argc, const char* const* argv);

/// The device for Job::join(): a GPU if one is wanted and can compute the model. The CPU for a checkpoint
/// that cannot be read; evaluate() says why.
/// @throws muster::Error(ErrorCode::usage) for --device=cuda when the GPU cannot compute the model.
ChosenDevice choose_device(const EvaluateOptions& options);

/// Computes the loss of a trained model over data, on the ranks of the job, and prints it on rank 0.
/// Collective.
/// @throws CollectiveAbort when it fails on a rank and the error is printed.
void evaluate(const EvaluateOptions& options, Job& job);

}  // namespace muster
