// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda.h>

#include <cstddef>
#include <string>

#include "shared_object.hpp"

// The part of cuDNN's interface that the trainer calls, equal in versions 8 and 9 (NVIDIA, cuDNN API
// reference, cudnn_ops and cudnn_cnn). Declared here because no package of a distribution has its headers;
// compare_cudnn_header.cpp of the tests compares both.
namespace muster::compute::cuda {

using CudnnHandle = struct CudnnContext*;
using CudnnTensor = struct CudnnTensorDescriptor*;
using CudnnFilter = struct CudnnFilterDescriptor*;
using CudnnConvolutionDescriptor = struct CudnnConvolutionDescriptorOf*;
/// 0 is success. Other numbers differ between versions.
using CudnnStatus = int;

inline constexpr int cudnn_float = 0, cudnn_bfloat16 = 9;  // cudnnDataType_t
inline constexpr int cudnn_channels_last = 1;              // cudnnTensorFormat_t
inline constexpr int cudnn_tensor_op_math = 1;             // cudnnMathType_t
inline constexpr int cudnn_cross_correlation = 1;          // cudnnConvolutionMode_t
inline constexpr int cudnn_spatial = 1;                    // cudnnBatchNormMode_t
inline constexpr int cudnn_deterministic = 1;              // cudnnDeterminism_t

/// Factors of a result, and of what it replaces.
inline constexpr float cudnn_one = 1, cudnn_zero = 0;

/// cudnnConvolutionFwdAlgoPerf_t, and the same for the two backward passes.
struct CudnnAlgorithm {
  int number;
  CudnnStatus status;
  float time;
  std::size_t memory;  ///< bytes of workspace
  int determinism, math_type;
  int reserved[3];
};

/// The cuDNN functions that the trainer calls, loaded at run time.
struct CudnnLibrary {
  /// libcudnn.so.9, else libcudnn.so.8, or the file in MUSTER_CUDNN_LIBRARY.
  /// @throws Error(ErrorCode::device) from the constructor.
  detail::SharedObject object = open();

  CudnnStatus (*create)(CudnnHandle*) = object.find("cudnnCreate");
  CudnnStatus (*destroy)(CudnnHandle) = object.find("cudnnDestroy");
  CudnnStatus (*set_stream)(CudnnHandle, CUstream) = object.find("cudnnSetStream");
  std::size_t (*get_version)() = object.find("cudnnGetVersion");
  const char* (*get_error_string)(CudnnStatus) = object.find("cudnnGetErrorString");

  CudnnStatus (*tensor_create)(CudnnTensor*) = object.find("cudnnCreateTensorDescriptor");
  CudnnStatus (*tensor_destroy)(CudnnTensor) = object.find("cudnnDestroyTensorDescriptor");
  /// (format, type, images, channels, height, width)
  CudnnStatus (*tensor_set)(CudnnTensor, int, int, int, int, int,
                            int) = object.find("cudnnSetTensor4dDescriptor");
  CudnnStatus (*filter_create)(CudnnFilter*) = object.find("cudnnCreateFilterDescriptor");
  CudnnStatus (*filter_destroy)(CudnnFilter) = object.find("cudnnDestroyFilterDescriptor");
  /// (type, format, out, in, height, width)
  CudnnStatus (*filter_set)(CudnnFilter, int, int, int, int, int,
                            int) = object.find("cudnnSetFilter4dDescriptor");
  CudnnStatus (*convolution_create)(CudnnConvolutionDescriptor*) =
      object.find("cudnnCreateConvolutionDescriptor");
  CudnnStatus (*convolution_destroy)(CudnnConvolutionDescriptor) =
      object.find("cudnnDestroyConvolutionDescriptor");
  /// (padding, stride and dilation in both directions, mode, type of sums)
  CudnnStatus (*convolution_set)(CudnnConvolutionDescriptor, int, int, int, int, int, int, int,
                                 int) = object.find("cudnnSetConvolution2dDescriptor");
  CudnnStatus (*convolution_set_groups)(CudnnConvolutionDescriptor,
                                        int) = object.find("cudnnSetConvolutionGroupCount");
  CudnnStatus (*convolution_set_math)(CudnnConvolutionDescriptor,
                                      int) = object.find("cudnnSetConvolutionMathType");

  /// Algorithms in the order of their expected times: (…, most, their number, algorithms).
  CudnnStatus (*find_forward)(CudnnHandle, CudnnTensor, CudnnFilter, CudnnConvolutionDescriptor, CudnnTensor,
                              int, int*,
                              CudnnAlgorithm*) = object.find("cudnnGetConvolutionForwardAlgorithm_v7");
  CudnnStatus (*find_backward_data)(CudnnHandle, CudnnFilter, CudnnTensor, CudnnConvolutionDescriptor,
                                    CudnnTensor, int, int*, CudnnAlgorithm*) =
      object.find("cudnnGetConvolutionBackwardDataAlgorithm_v7");
  CudnnStatus (*find_backward_filter)(CudnnHandle, CudnnTensor, CudnnTensor, CudnnConvolutionDescriptor,
                                      CudnnFilter, int, int*, CudnnAlgorithm*) =
      object.find("cudnnGetConvolutionBackwardFilterAlgorithm_v7");
  /// (alpha, operands, convolution, algorithm, workspace and its bytes, beta, result); result = alpha * … +
  /// beta * result.
  CudnnStatus (*forward)(CudnnHandle, const void*, CudnnTensor, const void*, CudnnFilter, const void*,
                         CudnnConvolutionDescriptor, int, void*, std::size_t, const void*, CudnnTensor,
                         void*) = object.find("cudnnConvolutionForward");
  CudnnStatus (*backward_data)(CudnnHandle, const void*, CudnnFilter, const void*, CudnnTensor, const void*,
                               CudnnConvolutionDescriptor, int, void*, std::size_t, const void*, CudnnTensor,
                               void*) = object.find("cudnnConvolutionBackwardData");
  CudnnStatus (*backward_filter)(CudnnHandle, const void*, CudnnTensor, const void*, CudnnTensor, const void*,
                                 CudnnConvolutionDescriptor, int, void*, std::size_t, const void*,
                                 CudnnFilter, void*) = object.find("cudnnConvolutionBackwardFilter");

  /// (mode, alpha, beta, x, y, channels' tensor, gain, bias, share of the batch in the running statistics,
  /// running mean and unbiased variance, epsilon, mean and 1 / standard deviation of the batch)
  CudnnStatus (*norm_forward)(CudnnHandle, int, const void*, const void*, CudnnTensor, const void*,
                              CudnnTensor, void*, CudnnTensor, const void*, const void*, double, void*, void*,
                              double, void*, void*) = object.find("cudnnBatchNormalizationForwardTraining");
  /// (mode, alpha, beta, x, y, channels' tensor, gain, bias, mean, variance, epsilon)
  CudnnStatus (*norm_inference)(CudnnHandle, int, const void*, const void*, CudnnTensor, const void*,
                                CudnnTensor, void*, CudnnTensor, const void*, const void*, const void*,
                                const void*, double) = object.find("cudnnBatchNormalizationForwardInference");
  /// (mode, alpha and beta of dx, those of the other two, x, dy, dx, channels' tensor, gain, its gradient,
  /// the bias's, epsilon, mean, 1 / standard deviation)
  CudnnStatus (*norm_backward)(CudnnHandle, int, const void*, const void*, const void*, const void*,
                               CudnnTensor, const void*, CudnnTensor, const void*, CudnnTensor, void*,
                               CudnnTensor, const void*, void*, void*, double, const void*,
                               const void*) = object.find("cudnnBatchNormalizationBackward");

  /// "9.1.0".
  std::string version() const;
  /// @throws Error(ErrorCode::device) that names the failed call and cuDNN's reason, unless `status` is
  /// success.
  void require(CudnnStatus status, const std::string& what) const;

 private:
  static detail::SharedObject open();
};

}  // namespace muster::compute::cuda
