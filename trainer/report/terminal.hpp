// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

namespace muster {

/// True when a person watches standard output: it is a terminal, or mpirun's pseudo-terminal while mpirun
/// itself writes to one.
bool output_is_terminal();
/// Columns of that terminal; 80 when it does not say.
std::size_t terminal_columns();

}  // namespace muster
