// SPDX-License-Identifier: Apache-2.0
// Residual networks (He, Zhang, Ren and Sun, "Deep Residual Learning for Image Recognition", arXiv
// 1512.03385).
#pragma once

#include "models/image_network.hpp"

namespace muster::models {

/// The network for CIFAR of section 4.2: 6 * blocks + 2 layers, 16, 32 and 64 channels, shortcuts without
/// parameters (option A), half of the zero channels in front. 853,018 parameters with 9 blocks (ResNet-56)
/// and 10 classes.
ImageNetwork resnet_cifar(int blocks, int classes, const ImageSize& images = {32, 32, 3});

/// ResNet-50 with stride 2 in the 3x3 convolutions ("v1.5") and torchvision's names; 25,557,032 parameters
/// with 1000 classes.
ImageNetwork resnet50(int classes, const ImageSize& images = {224, 224, 3});

}  // namespace muster::models
