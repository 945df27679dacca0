// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "pictures/picture.hpp"

namespace muster::pictures {

/// The picture as a PNG file.
/// @throws muster::Error(ErrorCode::system)
std::vector<std::uint8_t> write_png(const Picture& picture);

}  // namespace muster::pictures
