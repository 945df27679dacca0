// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "pictures/crop.hpp"
#include "pictures/picture.hpp"

namespace muster::pictures {

/// Scales a crop to side x side pixels: red, green and blue bytes, row by row, into `to`. A triangle that
/// widens with the scale is the filter, so that small pictures are smooth (antialiasing). Equal to Pillow's
/// resize(…, BILINEAR) to the last bit: horizontal first, with rounding to bytes between, in fixed point.
/// Box and picture must overlap.
void resize(const Picture& picture, const Crop& crop, int side, std::uint8_t* to);

}  // namespace muster::pictures
