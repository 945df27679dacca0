// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda.h>

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cuda/cuda_library.hpp"

namespace muster::detail {

/// The parameters of a kernel as its loaded module declares them, to be compared with a launch's arguments:
/// CUDA reads as many bytes as the module says from whatever addresses a launch gives it. Immutable.
class KernelParameters {
 public:
  /// Before CUDA 12.4 the driver does not say what the parameters are. Every launch then fits.
  KernelParameters(const CudaLibrary& cuda, CUfunction kernel);

  /// How the arguments of a launch differ from the parameters; empty if they fit. `argument_bytes`: the size
  /// of each argument.
  std::string difference(std::span<const std::size_t> argument_bytes) const;

 private:
  std::optional<std::vector<std::size_t>> bytes_;  ///< of each parameter
};

}  // namespace muster::detail
