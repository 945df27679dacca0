// SPDX-License-Identifier: Apache-2.0
// Takes dnnl_matmul.cpp's place where oneDNN was not found.
#include "compute/cpu/dnnl_matmul.hpp"

namespace muster::compute::cpu {

struct DnnlMatmul::State {};
DnnlMatmul::DnnlMatmul() = default;
DnnlMatmul::~DnnlMatmul() = default;
void DnnlMatmul::operator()(const MatmulShape&, const float*, const float*, const float*, float*) {}
const char* DnnlMatmul::name() { return "own matrix product"; }
bool DnnlMatmul::available() { return false; }

}  // namespace muster::compute::cpu
