// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "models/image_network.hpp"

namespace muster::models {

/// MobileNet (Howard et al., arXiv 1704.04861): a convolution, then 13 pairs of a depthwise 3x3 and a
/// pointwise convolution, each with batch normalization and ReLU. Every number of channels is multiplied by
/// `width` and rounded down. The last pair has stride 1: the paper prints 2, with which its sizes do not fit.
/// 4,231,976 parameters with width 1 and 1000 classes.
ImageNetwork mobilenet_v1(double width, int classes, const ImageSize& images = {224, 224, 3});

}  // namespace muster::models
