// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace muster {

/// `muster-train generate …`: continues a text with a trained model, on the CPU or a GPU. argv[0] is
/// "generate". Returns the exit code.
/// @throws muster::Error: usage (wrong options, weights or prompt, or a model that the GPU cannot compute),
/// device, system (cannot be read or written).
int generate_command(int argc, const char* const* argv);

}  // namespace muster
