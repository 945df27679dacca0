// SPDX-License-Identifier: Apache-2.0
// Embeds the fat binary that nvcc compiled from gpu_kernels.cu, the file MUSTER_GPU_KERNELS, in this library.
#include "reducer/gpu_kernels.hpp"

extern "C" [[gnu::visibility("hidden")]] const unsigned char muster_gpu_kernels[];

asm(".pushsection .rodata\n"
    ".balign 16\n"
    ".global muster_gpu_kernels\n"
    ".hidden muster_gpu_kernels\n"
    "muster_gpu_kernels:\n"
    ".incbin \"" MUSTER_GPU_KERNELS
    "\"\n"
    ".popsection\n");

namespace muster::detail {

const void* gpu_kernels() noexcept { return muster_gpu_kernels; }

}  // namespace muster::detail
