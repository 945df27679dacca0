// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace muster::render {

/// Prints the unified difference from a file to this text, by the program diff. Returns 0: none, 1: some.
/// @throws DescriptionError if the file cannot be read, std::system_error if diff cannot be started.
int print_difference(const std::string& file, const std::string& text);

}  // namespace muster::render
