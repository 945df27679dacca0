// SPDX-License-Identifier: Apache-2.0
// Embeds the fat binary that nvcc made from kernels.cu (MUSTER_TRAINER_KERNELS).
#include "compute/cuda/kernels/kernel_binary.hpp"

extern "C" [[gnu::visibility("hidden")]] const unsigned char muster_trainer_kernels[];

asm(".pushsection .rodata\n"
    ".balign 16\n"
    ".global muster_trainer_kernels\n"
    ".hidden muster_trainer_kernels\n"
    "muster_trainer_kernels:\n"
    ".incbin \"" MUSTER_TRAINER_KERNELS
    "\"\n"
    ".popsection\n");

namespace muster::compute::cuda {

const void* kernel_binary() noexcept { return muster_trainer_kernels; }

}  // namespace muster::compute::cuda
