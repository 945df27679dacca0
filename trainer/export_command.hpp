// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace muster {

/// `muster-train export …`: writes trained weights in the format of another program. argv[0] is "export".
/// Returns the exit code.
/// @throws muster::Error: usage (wrong options, no weights, an output that exists), system.
int export_command(int argc, const char* const* argv);

}  // namespace muster
