// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cublasLt.h>

#include "shared_object.hpp"

namespace muster::compute::cuda {

/// The cuBLASLt functions that the trainer calls, loaded at run time.
struct CublasLibrary {
  /// Loads libcublasLt.so of the CUDA version that this was built with, or the file in
  /// MUSTER_CUBLASLT_LIBRARY.
  /// @throws Error(ErrorCode::device)
  CublasLibrary();

  detail::SharedObject object;
  decltype(::cublasLtCreate)* create = nullptr;
  decltype(::cublasLtDestroy)* destroy = nullptr;
  decltype(::cublasLtGetVersion)* get_version = nullptr;
  decltype(::cublasLtMatmulDescCreate)* product_create = nullptr;
  decltype(::cublasLtMatmulDescDestroy)* product_destroy = nullptr;
  decltype(::cublasLtMatmulDescSetAttribute)* product_set = nullptr;
  decltype(::cublasLtMatrixLayoutCreate)* matrix_create = nullptr;
  decltype(::cublasLtMatrixLayoutDestroy)* matrix_destroy = nullptr;
  decltype(::cublasLtMatmulPreferenceCreate)* preference_create = nullptr;
  decltype(::cublasLtMatmulPreferenceDestroy)* preference_destroy = nullptr;
  decltype(::cublasLtMatmulPreferenceSetAttribute)* preference_set = nullptr;
  decltype(::cublasLtMatmulAlgoGetHeuristic)* find_algorithms = nullptr;
  decltype(::cublasLtMatmul)* multiply = nullptr;

  /// @throws Error(ErrorCode::device) that names the failed operation, unless `status` is success.
  static void require(cublasStatus_t status, const char* what);
};

}  // namespace muster::compute::cuda
