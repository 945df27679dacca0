// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

#include "muster/job.hpp"

namespace muster {

struct EvaluateOptions {
  std::string from, data;
  double validation_fraction = 1;  ///< part of the data, at its end; 1: all of it
  int batch = 0;                   ///< sequences or images at once; 0: about 1024 tokens, or 256 images
  int image_size = 0;              ///< Options::image_size
  std::string label_column, on_bad_image = "stop";  ///< as in Options
  std::string dtype = "fp32";
  int threads = 0;
};

/// Parses `muster-train evaluate …`; argv[0] is "evaluate". Nothing when --help was printed.
/// @throws muster::Error(ErrorCode::usage)
std::optional<EvaluateOptions> parse_evaluate_options(int argc, const char* const* argv);

/// Computes the loss of a trained model over data, on the ranks of the job, and prints it on rank 0.
/// Collective.
/// @throws CollectiveAbort when it fails on a rank and the error is printed.
void evaluate(const EvaluateOptions& options, Job& job);

}  // namespace muster
