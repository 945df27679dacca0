// SPDX-License-Identifier: Apache-2.0
// Replaces dnnl_convolution.cpp in builds without oneDNN.
#include "compute/cpu/convolution.hpp"

namespace muster::compute::cpu {

std::unique_ptr<Convolution<float>> dnnl_convolution(const float*) { return nullptr; }
std::unique_ptr<Convolution<bfloat16>> dnnl_convolution(const bfloat16*) { return nullptr; }

}  // namespace muster::compute::cpu
