// SPDX-License-Identifier: Apache-2.0
#include "compute/cuda/cudnn_convolution.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>

namespace muster::compute::cuda {
namespace {

/// More than all algorithms of a pass in cuDNN 8 and 9.
constexpr int max_proposals = 16;
/// Bytes; a part of what open_gpu() reserves.
constexpr std::size_t largest_workspace = 256u << 20;

std::string describe(const ConvolutionShape& s) {
  return fmt::format("{} images of {} x {} with {} channels to {}, window {}, stride {}, padding {}{}",
                     s.batch, s.height, s.width, s.in, s.out, s.window, s.stride, s.padding,
                     s.groups > 1 ? ", depthwise" : "");
}

}  // namespace

/// One of a convolution's three functions.
struct CudnnConvolution::Pass {
  const char* call;
  std::optional<CudnnAlgorithm> algorithm = {};
};

struct CudnnConvolution::Plan {
  Plan(const CudnnLibrary& library, const ConvolutionShape& s) : cudnn(library), shape(s), text(describe(s)) {
    make(cudnn.tensor_create(&images), "cudnnCreateTensorDescriptor");
    make(cudnn.tensor_create(&out), "cudnnCreateTensorDescriptor");
    make(cudnn.filter_create(&weight), "cudnnCreateFilterDescriptor");
    make(cudnn.convolution_create(&convolution), "cudnnCreateConvolutionDescriptor");
    make(cudnn.tensor_set(images, cudnn_channels_last, cudnn_bfloat16, s.batch, s.in, s.height, s.width),
         "cudnnSetTensor4dDescriptor");
    make(cudnn.tensor_set(out, cudnn_channels_last, cudnn_bfloat16, s.batch, s.out, s.out_height(),
                          s.out_width()),
         "cudnnSetTensor4dDescriptor");
    make(cudnn.filter_set(weight, cudnn_bfloat16, cudnn_channels_last, s.out, s.in / s.groups, s.window,
                          s.window),
         "cudnnSetFilter4dDescriptor");
    make(cudnn.convolution_set(convolution, s.padding, s.padding, s.stride, s.stride, 1, 1,
                               cudnn_cross_correlation, cudnn_float),
         "cudnnSetConvolution2dDescriptor");
    make(cudnn.convolution_set_groups(convolution, s.groups), "cudnnSetConvolutionGroupCount");
  }
  ~Plan() {
    if (images != nullptr) cudnn.tensor_destroy(images);
    if (out != nullptr) cudnn.tensor_destroy(out);
    if (weight != nullptr) cudnn.filter_destroy(weight);
    if (convolution != nullptr) cudnn.convolution_destroy(convolution);
  }
  Plan(const Plan&) = delete;
  Plan& operator=(const Plan&) = delete;

  void make(CudnnStatus status, const char* call) const {
    if (status != 0) cudnn.require(status, fmt::format("{} for {}", call, text));
  }

  const CudnnLibrary& cudnn;
  ConvolutionShape shape;
  std::string text;
  CudnnTensor images = nullptr, out = nullptr;
  CudnnFilter weight = nullptr;
  CudnnConvolutionDescriptor convolution = nullptr;
  Pass forward{"cudnnConvolutionForward"}, backward_data{"cudnnConvolutionBackwardData"},
      backward_filter{"cudnnConvolutionBackwardFilter"};
};

CudnnConvolution::CudnnConvolution(Gpu& gpu, const CudnnLibrary& cudnn, CudnnHandle handle)
    : gpu_(gpu), cudnn_(cudnn), handle_(handle) {}

CudnnConvolution::~CudnnConvolution() = default;

CudnnConvolution::Plan& CudnnConvolution::find_plan(const ConvolutionShape& shape) {
  const auto found =
      std::find_if(plans_.begin(), plans_.end(), [&shape](const auto& plan) { return plan->shape == shape; });
  if (found != plans_.end()) return **found;
  return *plans_.emplace_back(std::make_unique<Plan>(cudnn_, shape));
}

template <typename Find>
void CudnnConvolution::prepare(Plan& plan, Pass& pass, const Find& find) {
  if (!pass.algorithm) {
    plan.make(cudnn_.convolution_set_math(plan.convolution, cudnn_tensor_op_math),
              "cudnnSetConvolutionMathType");
    std::array<CudnnAlgorithm, max_proposals> all{};
    int count = 0;
    plan.make(find(max_proposals, &count, all.data()), "the choice of an algorithm");
    const auto* const end = all.data() + count;
    const auto* const first =
        std::find_if(static_cast<const CudnnAlgorithm*>(all.data()), end, [](const auto& a) {
          return a.status == 0 && a.determinism == cudnn_deterministic && a.memory <= largest_workspace;
        });
    if (first == end) {
      throw Error(ErrorCode::device,
                  fmt::format("cuDNN {} has no deterministic algorithm for {} of {}: pass --device=cpu",
                              cudnn_.version(), pass.call, plan.text));
    }
    pass.algorithm = *first;
  }
  if (workspace_.size() < pass.algorithm->memory) {
    workspace_ = {};
    workspace_ = Arena<std::byte>(pass.algorithm->memory, gpu_);
  }
  plan.make(cudnn_.convolution_set_math(plan.convolution, pass.algorithm->math_type),
            "cudnnSetConvolutionMathType");
}

void CudnnConvolution::check(CudnnStatus status, const Plan& plan, const Pass& pass) const {
  plan.make(status, pass.call);
  if (gpu_.checks()) gpu_.check(fmt::format("{} for {}", pass.call, plan.text));
}

void CudnnConvolution::forward(const ConvolutionShape& shape, const bfloat16* images, const bfloat16* weight,
                               bfloat16* out) {
  Plan& plan = find_plan(shape);
  prepare(plan, plan.forward, [&](int most, int* count, CudnnAlgorithm* all) {
    return cudnn_.find_forward(handle_, plan.images, plan.weight, plan.convolution, plan.out, most, count,
                               all);
  });
  check(cudnn_.forward(handle_, &cudnn_one, plan.images, images, plan.weight, weight, plan.convolution,
                       plan.forward.algorithm->number, workspace_.data(), workspace_.size(), &cudnn_zero,
                       plan.out, out),
        plan, plan.forward);
}

void CudnnConvolution::backward_images(const ConvolutionShape& shape, const bfloat16* d_out,
                                       const bfloat16* weight, bfloat16* d_images) {
  Plan& plan = find_plan(shape);
  prepare(plan, plan.backward_data, [&](int most, int* count, CudnnAlgorithm* all) {
    return cudnn_.find_backward_data(handle_, plan.weight, plan.out, plan.convolution, plan.images, most,
                                     count, all);
  });
  check(cudnn_.backward_data(handle_, &cudnn_one, plan.weight, weight, plan.out, d_out, plan.convolution,
                             plan.backward_data.algorithm->number, workspace_.data(), workspace_.size(),
                             &cudnn_zero, plan.images, d_images),
        plan, plan.backward_data);
}

void CudnnConvolution::backward_weight(const ConvolutionShape& shape, const bfloat16* images,
                                       const bfloat16* d_out, bfloat16* d_weight) {
  Plan& plan = find_plan(shape);
  prepare(plan, plan.backward_filter, [&](int most, int* count, CudnnAlgorithm* all) {
    return cudnn_.find_backward_filter(handle_, plan.images, plan.out, plan.convolution, plan.weight, most,
                                       count, all);
  });
  check(cudnn_.backward_filter(handle_, &cudnn_one, plan.images, images, plan.out, d_out, plan.convolution,
                               plan.backward_filter.algorithm->number, workspace_.data(), workspace_.size(),
                               &cudnn_zero, plan.weight, d_weight),
        plan, plan.backward_filter);
}

}  // namespace muster::compute::cuda
