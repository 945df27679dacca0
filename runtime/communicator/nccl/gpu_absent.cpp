// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "communicator/nccl/gpu.hpp"
#include "muster/error.hpp"

namespace muster::detail {

std::shared_ptr<Gpu> open_gpu(const std::string& placed_gpu, int, const std::string& rank, const Deadline&) {
  throw Error(
      ErrorCode::device,
      fmt::format("{}: {}, but this libmuster was built without CUDA: use one built with CUDA and NCCL, or "
                  "--device=cpu",
                  rank,
                  placed_gpu.empty() ? "a GPU was asked for" : "GPU " + placed_gpu + " was placed for it"));
}

}  // namespace muster::detail
