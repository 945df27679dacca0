// SPDX-License-Identifier: Apache-2.0
// Replaces dnnl_matmul.cpp in builds without oneDNN.
#include "compute/cpu/dnnl_matmul.hpp"

namespace muster::compute::cpu {

struct DnnlMatmul::State {};
DnnlMatmul::DnnlMatmul() = default;
DnnlMatmul::~DnnlMatmul() = default;
void DnnlMatmul::operator()(const MatmulShape&, const float*, const float*, const float*, float*) {}
void DnnlMatmul::operator()(const MatmulShape&, const bfloat16*, const bfloat16*, const bfloat16*,
                            bfloat16*) {}
void DnnlMatmul::weight_gradient(int, int, int, const bfloat16*, const bfloat16*, float*) {}
const char* DnnlMatmul::name() { return "own matrix product"; }
template <typename Real>
bool DnnlMatmul::available() {
  return false;
}
bool DnnlMatmul::has_fast_bfloat16() { return false; }
template bool DnnlMatmul::available<float>();
template bool DnnlMatmul::available<bfloat16>();

}  // namespace muster::compute::cpu
