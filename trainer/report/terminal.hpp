// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

namespace muster {

/// True when standard output is a terminal, or mpirun's pseudo-terminal while mpirun itself writes to a
/// terminal.
bool output_is_terminal();
/// Columns of that terminal; 80 when it does not report them.
std::size_t terminal_columns();

}  // namespace muster
