// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>

#include "checkpoint/checkpoint.hpp"
#include "weights/elements.hpp"

namespace muster::weights {

/// Whether the checkpoint is of a network on images.
bool is_network_checkpoint(const Checkpoint& checkpoint);

/// Writes one safetensors file with the network's parameters and running statistics under PyTorch's names,
/// and with metadata `model`. load_state_dict() of the same network takes it: torchvision's resnet50, for
/// example. The file appears whole or not at all. Returns the number of parameters.
/// @throws muster::Error: usage (damaged), system.
std::size_t write_network_weights(const std::filesystem::path& path, const Checkpoint& checkpoint,
                                  ElementType type = ElementType::float32);

}  // namespace muster::weights
