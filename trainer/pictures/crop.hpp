// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "pictures/picture.hpp"

namespace muster::pictures {

/// A part of a picture, in its pixels.
struct Box {
  double left = 0, top = 0, right = 0, bottom = 0;
  double width() const { return right - left; }
  double height() const { return bottom - top; }
};

/// The part of a picture that becomes a model's input.
struct Crop {
  Box box;
  /// Whether pixels of `box` alone count, as if it were cut out before it is scaled; else those around it
  /// count at its edges too.
  bool cuts = false;
  bool mirror = false;
};

/// The augmentation of Szegedy et al. (arXiv 1409.4842, section 6): a box of 8 to 100 % of the area, with a
/// ratio of width to height from 3/4 to 4/3, at a random place; after ten boxes that do not fit, the largest
/// one in the middle. Half of the pictures are mirrored. As torchvision's RandomResizedCrop and
/// RandomHorizontalFlip draw it, from other random numbers. A function of its arguments alone, on machines
/// whose libm agrees to the last bit. Samples are numbered through all epochs.
Crop draw_crop(std::uint64_t seed, std::uint64_t sample, int width, int height);

/// The part that is left when the shorter side is scaled to 8/7 of `side` and a square of `side` pixels is
/// cut out of the middle: 256 and 224 pixels, as torchvision's references do it.
Crop middle_crop(int width, int height, int side);

/// The largest `shrink` for EncodedPicture::decode() at which the box still has `side` pixels in each
/// direction.
int choose_shrink(const Box& box, int side);

}  // namespace muster::pictures
