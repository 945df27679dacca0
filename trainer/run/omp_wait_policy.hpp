// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace muster {

/// Makes OpenMP's idle threads sleep soon instead of spinning for milliseconds, unless the user set
/// OMP_WAIT_POLICY or GOMP_SPINCOUNT. Spinning threads take the CPU from the threads that they wait for as
/// soon as other programs run: two threads on two cores shared with two compilers trained at a quarter of the
/// speed.
/// libgomp reads its variables when it is loaded, so the program executes itself again with GOMP_SPINCOUNT
/// set. Call this first in main(); it returns when the variable is set or cannot be set.
void set_omp_wait_policy(char** argv);

}  // namespace muster
