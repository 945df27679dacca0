// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cublasLt.h>

#include "shared_object.hpp"

namespace muster::compute::cuda {

/// The cuBLASLt functions that the trainer calls, loaded at run time.
struct CublasLibrary {
  /// libcublasLt.so of the CUDA version that this was built with, or the file in MUSTER_CUBLASLT_LIBRARY.
  /// @throws Error(ErrorCode::device) from the constructor.
  detail::SharedObject object{
      "MUSTER_CUBLASLT_LIBRARY", "libcublasLt.so." MUSTER_SYMBOL(CUBLAS_VER_MAJOR),
      "the trainer needs cuBLASLt for --device=cuda: load CUDA's module, or name the file in "
      "MUSTER_CUBLASLT_LIBRARY"};
  decltype(::cublasLtCreate)* create = object.find("cublasLtCreate");
  decltype(::cublasLtDestroy)* destroy = object.find("cublasLtDestroy");
  decltype(::cublasLtGetVersion)* get_version = object.find("cublasLtGetVersion");
  decltype(::cublasLtMatmulDescCreate)* product_create = object.find("cublasLtMatmulDescCreate");
  decltype(::cublasLtMatmulDescDestroy)* product_destroy = object.find("cublasLtMatmulDescDestroy");
  decltype(::cublasLtMatmulDescSetAttribute)* product_set = object.find("cublasLtMatmulDescSetAttribute");
  decltype(::cublasLtMatrixLayoutCreate)* matrix_create = object.find("cublasLtMatrixLayoutCreate");
  decltype(::cublasLtMatrixLayoutDestroy)* matrix_destroy = object.find("cublasLtMatrixLayoutDestroy");
  decltype(::cublasLtMatmulPreferenceCreate)* preference_create =
      object.find("cublasLtMatmulPreferenceCreate");
  decltype(::cublasLtMatmulPreferenceDestroy)* preference_destroy =
      object.find("cublasLtMatmulPreferenceDestroy");
  decltype(::cublasLtMatmulPreferenceSetAttribute)* preference_set =
      object.find("cublasLtMatmulPreferenceSetAttribute");
  decltype(::cublasLtMatmulAlgoGetHeuristic)* find_algorithms = object.find("cublasLtMatmulAlgoGetHeuristic");
  decltype(::cublasLtMatmulAlgoCheck)* check_algorithm = object.find("cublasLtMatmulAlgoCheck");
  decltype(::cublasLtMatmulAlgoConfigGetAttribute)* algorithm_get =
      object.find("cublasLtMatmulAlgoConfigGetAttribute");
  decltype(::cublasLtMatmul)* multiply = object.find("cublasLtMatmul");

  /// @throws Error(ErrorCode::device) that names the failed operation, unless `status` is success.
  static void require(cublasStatus_t status, const char* what);
};

}  // namespace muster::compute::cuda
