// SPDX-License-Identifier: Apache-2.0
// How a camera was held: EXIF's orientation (CIPA DC-008, section 4.6.4 A), from 1 (upright) to 8.
#pragma once

#include <cstdint>
#include <span>

#include "pictures/picture.hpp"

namespace muster::pictures {

/// The orientation in a TIFF structure, which EXIF is; 1 if there is none or it is damaged.
int read_orientation(std::span<const std::uint8_t> tiff);

/// Whether width and height change places.
inline bool is_sideways(int orientation) { return orientation >= 5; }

/// The picture turned and mirrored so that it is upright.
Picture make_upright(Picture picture, int orientation);

}  // namespace muster::pictures
