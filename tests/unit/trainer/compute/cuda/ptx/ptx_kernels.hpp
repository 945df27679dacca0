// SPDX-License-Identifier: Apache-2.0
// nvcc's PTX, translated to C++ for the fake GPU by ptx_to_cpp.py.
#pragma once

#include <vector>

namespace fake_gpu {

#ifdef FAKE_GPU_RUNS_PTX
inline constexpr bool runs_ptx = true;
#else
inline constexpr bool runs_ptx = false;
#endif

struct PtxKernel {
  void (*source)();                      ///< the kernel's own function, not to be called by this type
  void (*run)(void* const* parameters);  ///< as one thread; parameters as for cuLaunchKernel
  /// It has fused multiply-adds. In unfused_ptx, these are those of CUDA's logf, whose last bit may differ
  /// from that of the host's.
  bool has_fused;
};
/// Without fused multiply-adds, which the sources do not have either.
extern const std::vector<PtxKernel> unfused_ptx;
/// As it is in the trainer's fat binary.
extern const std::vector<PtxKernel> shipped_ptx;
/// As it is in the reducer's, which has no fused multiply-adds.
extern const std::vector<PtxKernel> reducer_ptx;

}  // namespace fake_gpu
