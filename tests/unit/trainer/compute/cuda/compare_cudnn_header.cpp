// SPDX-License-Identifier: Apache-2.0
// Compiles only if cudnn_library.hpp declares what cuDNN's own header does. Built where that header is.
#include <cudnn.h>

#include <cstddef>
#include <type_traits>

#include "compute/cuda/cudnn_library.hpp"

using namespace muster::compute::cuda;

namespace {

/// Whether both are passed in the same way: enumerations as int, handles as pointers.
template <typename A, typename B>
constexpr bool is_passed_alike = sizeof(A) == sizeof(B) &&
                                 (std::is_pointer_v<A>) ==
                                     (std::is_pointer_v<B>)&&(std::is_floating_point_v<A>) ==
                                     (std::is_floating_point_v<B>);

template <typename... A>
struct Parameters {};

template <typename... A, typename... B>
constexpr bool are_alike(Parameters<A...>, Parameters<B...>) {
  if constexpr (sizeof...(A) != sizeof...(B))
    return false;
  else
    return (is_passed_alike<A, B> && ...);
}

template <typename R, typename... A, typename S, typename... B>
constexpr bool is_declared_as(R (*CudnnLibrary::*)(A...), S (*)(B...)) {
  return is_passed_alike<R, S> && are_alike(Parameters<A...>(), Parameters<B...>());
}

#define MUSTER_COMPARE(member, function) \
  static_assert(is_declared_as(&CudnnLibrary::member, static_cast<decltype(&::function)>(nullptr)), #function)

MUSTER_COMPARE(create, cudnnCreate);
MUSTER_COMPARE(destroy, cudnnDestroy);
MUSTER_COMPARE(set_stream, cudnnSetStream);
MUSTER_COMPARE(get_version, cudnnGetVersion);
MUSTER_COMPARE(get_error_string, cudnnGetErrorString);
MUSTER_COMPARE(tensor_create, cudnnCreateTensorDescriptor);
MUSTER_COMPARE(tensor_destroy, cudnnDestroyTensorDescriptor);
MUSTER_COMPARE(tensor_set, cudnnSetTensor4dDescriptor);
MUSTER_COMPARE(filter_create, cudnnCreateFilterDescriptor);
MUSTER_COMPARE(filter_destroy, cudnnDestroyFilterDescriptor);
MUSTER_COMPARE(filter_set, cudnnSetFilter4dDescriptor);
MUSTER_COMPARE(convolution_create, cudnnCreateConvolutionDescriptor);
MUSTER_COMPARE(convolution_destroy, cudnnDestroyConvolutionDescriptor);
MUSTER_COMPARE(convolution_set, cudnnSetConvolution2dDescriptor);
MUSTER_COMPARE(convolution_set_groups, cudnnSetConvolutionGroupCount);
MUSTER_COMPARE(convolution_set_math, cudnnSetConvolutionMathType);
MUSTER_COMPARE(find_forward, cudnnGetConvolutionForwardAlgorithm_v7);
MUSTER_COMPARE(find_backward_data, cudnnGetConvolutionBackwardDataAlgorithm_v7);
MUSTER_COMPARE(find_backward_filter, cudnnGetConvolutionBackwardFilterAlgorithm_v7);
MUSTER_COMPARE(forward, cudnnConvolutionForward);
MUSTER_COMPARE(backward_data, cudnnConvolutionBackwardData);
MUSTER_COMPARE(backward_filter, cudnnConvolutionBackwardFilter);
MUSTER_COMPARE(norm_forward, cudnnBatchNormalizationForwardTraining);
MUSTER_COMPARE(norm_inference, cudnnBatchNormalizationForwardInference);
MUSTER_COMPARE(norm_backward, cudnnBatchNormalizationBackward);

static_assert(CUDNN_STATUS_SUCCESS == 0);
static_assert(cudnn_float == CUDNN_DATA_FLOAT && cudnn_bfloat16 == CUDNN_DATA_BFLOAT16);
static_assert(cudnn_channels_last == CUDNN_TENSOR_NHWC && cudnn_tensor_op_math == CUDNN_TENSOR_OP_MATH);
static_assert(cudnn_cross_correlation == CUDNN_CROSS_CORRELATION && cudnn_spatial == CUDNN_BATCHNORM_SPATIAL);
static_assert(cudnn_deterministic == CUDNN_DETERMINISTIC);

template <typename Performance>
constexpr bool is_laid_out_alike = sizeof(Performance) == sizeof(CudnnAlgorithm) &&
                                   offsetof(Performance, algo) == offsetof(CudnnAlgorithm, number) &&
                                   offsetof(Performance, status) == offsetof(CudnnAlgorithm, status) &&
                                   offsetof(Performance, memory) == offsetof(CudnnAlgorithm, memory) &&
                                   offsetof(Performance, determinism) ==
                                       offsetof(CudnnAlgorithm, determinism) &&
                                   offsetof(Performance, mathType) == offsetof(CudnnAlgorithm, math_type);
static_assert(is_laid_out_alike<cudnnConvolutionFwdAlgoPerf_t>);
static_assert(is_laid_out_alike<cudnnConvolutionBwdDataAlgoPerf_t>);
static_assert(is_laid_out_alike<cudnnConvolutionBwdFilterAlgoPerf_t>);

}  // namespace
