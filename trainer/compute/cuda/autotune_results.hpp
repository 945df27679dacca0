// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "compute/cuda/matmul_shape.hpp"

namespace muster::compute::cuda {

/// An algorithm that cuBLASLt proposed for a product. The numbers are those of its
/// cublasLtMatmulAlgoConfigAttributes_t.
struct MatmulCandidate {
  int id = 0, tile = 0, stages = 0, split_k = 0;
  std::uint64_t workspace_bytes = 0;
  double microseconds = 0;  ///< of one product, measured
  bool operator==(const MatmulCandidate&) const = default;
};

/// How a product is computed, and the times that led to this choice.
struct AutotunedMatmul {
  CublasMatmulShape shape;
  std::vector<MatmulCandidate> candidates;  ///< empty: cuBLASLt has no algorithm
  std::size_t chosen = 0;                   ///< index of the fastest candidate
  /// The chosen cublasLtMatmulAlgo_t, which the same version of cuBLASLt can use again.
  std::array<std::uint64_t, 8> algorithm{};
  /// The epilogue's operation is computed by a kernel of its own, beside a product without epilogue.
  bool separate = false;
  std::optional<double> separate_microseconds;  ///< of both, measured
  bool operator==(const AutotunedMatmul&) const = default;
};

struct AutotuneResults {
  std::string gpu;      ///< "NVIDIA H200"
  std::string library;  ///< "cuBLASLt 13.1.0"
  std::vector<AutotunedMatmul> products;
  bool operator==(const AutotuneResults&) const = default;
};

/// How a product is computed, and how this was chosen, for people to read.
struct MatmulPlan {
  CublasMatmulShape shape;
  /// "timed": the fastest one; "loaded": the one in loaded results; "first": the first proposal that runs.
  const char* choice = "first";
  /// None: the epilogue's operation is computed by a kernel of its own, beside a product without epilogue.
  std::optional<MatmulCandidate> algorithm;
};

/// JSON.
std::string write_matmul_plans(const std::string& gpu, const std::string& library,
                               const std::vector<MatmulPlan>& plans);

/// The text of autotune.json.
std::string write_autotune_results(const AutotuneResults& results);
/// Parses the text of autotune.json.
/// @throws std::runtime_error with the reason when it is not what write_autotune_results() wrote, up to
/// formatting.
AutotuneResults parse_autotune_results(std::string_view text);

}  // namespace muster::compute::cuda
