// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace muster {

/// Makes OpenMP's idle threads sleep soon instead of spinning for milliseconds, unless the user's environment
/// says otherwise. Spinning threads keep the ones they wait for from a CPU as soon as anything else runs
/// there: two threads on two cores shared with two compilers trained at a quarter of the speed. libgomp reads
/// its variables when it is loaded, so the program starts itself once more with GOMP_SPINCOUNT set. To be
/// called first in main(); returns when nothing (more) is to be done.
void settle_wait_policy(char** argv);

}  // namespace muster
