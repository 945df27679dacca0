// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

namespace muster {

struct MakePicturesOptions {
  std::string output = "pictures";
  int training = 4000, held_out = 800;
  int classes = 10;  ///< shapes, at most ten
  bool bad = false;  ///< add pictures that cannot be decoded
  std::uint64_t seed = 1;
};

/// Draws shapes and writes them as JPEG and PNG files of many kinds: train/CLASS/NUMBER.jpg and
/// val/CLASS/NUMBER.jpg. Equal options give equal pictures.
/// @throws muster::Error: usage when the folder has such a tree, system when it cannot be written.
void make_pictures(const MakePicturesOptions& options);

}  // namespace muster
