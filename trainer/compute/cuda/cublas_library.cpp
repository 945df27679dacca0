// SPDX-License-Identifier: Apache-2.0
#include "compute/cuda/cublas_library.hpp"

#include <fmt/format.h>

#include "muster/error.hpp"

namespace muster::compute::cuda {

CublasLibrary::CublasLibrary()
    : object("MUSTER_CUBLASLT_LIBRARY", "libcublasLt.so." MUSTER_SYMBOL(CUBLAS_VER_MAJOR),
             "the trainer needs cuBLASLt for --device=cuda: load CUDA's module, or name the file in "
             "MUSTER_CUBLASLT_LIBRARY") {
  object.find(create, "cublasLtCreate");
  object.find(destroy, "cublasLtDestroy");
  object.find(get_version, "cublasLtGetVersion");
  object.find(product_create, "cublasLtMatmulDescCreate");
  object.find(product_destroy, "cublasLtMatmulDescDestroy");
  object.find(product_set, "cublasLtMatmulDescSetAttribute");
  object.find(matrix_create, "cublasLtMatrixLayoutCreate");
  object.find(matrix_destroy, "cublasLtMatrixLayoutDestroy");
  object.find(preference_create, "cublasLtMatmulPreferenceCreate");
  object.find(preference_destroy, "cublasLtMatmulPreferenceDestroy");
  object.find(preference_set, "cublasLtMatmulPreferenceSetAttribute");
  object.find(find_algorithms, "cublasLtMatmulAlgoGetHeuristic");
  object.find(multiply, "cublasLtMatmul");
}

void CublasLibrary::require(cublasStatus_t status, const char* what) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  throw Error(ErrorCode::device, fmt::format("cuBLASLt failed: {}: status {} of cublasStatus_t", what,
                                             static_cast<int>(status)));
}

}  // namespace muster::compute::cuda
