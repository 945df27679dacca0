// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace muster {

/// `muster-train make-data …`: generates training data. argv[0] is "make-data". Returns the exit code.
/// @throws muster::Error: usage (wrong options, a file that exists), system (cannot be written).
int make_data(int argc, const char* const* argv);

}  // namespace muster
