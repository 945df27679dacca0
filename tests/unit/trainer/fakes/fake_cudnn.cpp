// SPDX-License-Identifier: Apache-2.0
// A fake cuDNN 9: convolutions and batch normalization by plain loops on host memory, in bfloat16 with float
// sums and the channels last, as NVIDIA's documentation describes them. It refuses other types and layouts,
// sizes that do not fit each other, memory that is not aligned, workspaces that are too small, results in
// place, and algorithms other than the right one of the four that it proposes: the first is not
// deterministic, the second unusable, the third needs too much memory. Work is done when the fake CUDA runs
// it (cuLaunchHostFunc), on the handle's stream. FAKE_CUDNN may be the name of a call that fails, or
// "not_deterministic": the first algorithm is the only one.
#include <cuda.h>
#include <dlfcn.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "compute/cuda/cudnn_library.hpp"
#include "float16_bits.hpp"

using namespace muster::compute::cuda;

namespace muster::compute::cuda {

struct CudnnContext {
  CUstream stream = nullptr;
};
struct CudnnTensorDescriptor {
  int format = -1, type = -1, images = 0, channels = 0, height = 0, width = 0;
};
struct CudnnFilterDescriptor {
  int type = -1, format = -1, out = 0, in = 0, height = 0, width = 0;
};
struct CudnnConvolutionDescriptorOf {
  int padding = 0, stride = 0, groups = 1, math = 0;
};

}  // namespace muster::compute::cuda

namespace {

constexpr CudnnStatus success = 0, bad_parameter = 2000, execution_failed = 5000;
constexpr int not_deterministic = 0, unusable = 7, large = 2, right = 1, workspace_bytes = 4096;

bool fails(const char* call) {
  const char* const mode = std::getenv("FAKE_CUDNN");
  return mode != nullptr && std::string(mode) == call;
}

bool is_aligned(const void* memory) {
  return memory != nullptr && reinterpret_cast<std::uintptr_t>(memory) % 16 == 0;
}

bool is_plain(const void* alpha, const void* beta) {
  return *static_cast<const float*>(alpha) == 1 && *static_cast<const float*>(beta) == 0;
}

std::size_t area(int a, int b, int c = 1, int d = 1) {
  return static_cast<std::size_t>(a) * static_cast<std::size_t>(b) * static_cast<std::size_t>(c) *
         static_cast<std::size_t>(d);
}

std::vector<float> to_floats(const void* memory, std::size_t count) {
  std::vector<float> out(count);
  for (std::size_t i = 0; i < count; ++i)
    out[i] = muster::detail::bfloat16_value(static_cast<const std::uint16_t*>(memory)[i]);
  return out;
}
void from_floats(const std::vector<float>& values, void* memory) {
  for (std::size_t i = 0; i < values.size(); ++i)
    static_cast<std::uint16_t*>(memory)[i] = muster::detail::bfloat16_bits(values[i]);
}

CudnnStatus enqueue(const CudnnContext& handle, std::function<void()> work) {
  void* const cuda = dlopen(std::getenv("MUSTER_CUDA_LIBRARY"), RTLD_NOW | RTLD_LOCAL);
  if (cuda == nullptr || handle.stream == nullptr) return execution_failed;
  auto* const launch = reinterpret_cast<decltype(::cuLaunchHostFunc)*>(dlsym(cuda, "cuLaunchHostFunc"));
  auto owned = std::make_unique<std::function<void()>>(std::move(work));
  const auto run = [](void* data) {
    (*std::unique_ptr<std::function<void()>>(static_cast<std::function<void()>*>(data)))();
  };
  // `run` owns the work from here on.
  return launch(handle.stream, run, owned.release()) == CUDA_SUCCESS ? success : execution_failed;
}

/// A convolution's descriptors, copied from the caller's.
struct Sizes {
  CudnnTensorDescriptor x, y;
  CudnnFilterDescriptor w;
  CudnnConvolutionDescriptorOf c;

  bool fit() const {
    const auto after = [this](int pixels) { return (pixels + 2 * c.padding - w.height) / c.stride + 1; };
    const bool typed = x.format == cudnn_channels_last && y.format == x.format && w.format == x.format &&
                       x.type == cudnn_bfloat16 && y.type == x.type && w.type == x.type;
    return typed && w.height == w.width && x.images == y.images && x.images > 0 && w.out == y.channels &&
           w.in * c.groups == x.channels && w.out % c.groups == 0 && y.height == after(x.height) &&
           y.width == after(x.width);
  }
  std::size_t x_count() const { return area(x.images, x.channels, x.height, x.width); }
  std::size_t y_count() const { return area(y.images, y.channels, y.height, y.width); }
  std::size_t w_count() const { return area(w.out, w.in, w.height, w.width); }

  /// Calls f(place in y, in x, in w) for each product.
  template <typename F>
  void for_each_product(const F& f) const {
    for (int n = 0; n < y.images; ++n)
      for (int to_y = 0; to_y < y.height; ++to_y)
        for (int to_x = 0; to_x < y.width; ++to_x)
          for (int row = 0; row < w.height; ++row)
            for (int column = 0; column < w.width; ++column) {
              const int from_y = to_y * c.stride + row - c.padding,
                        from_x = to_x * c.stride + column - c.padding;
              if (from_y < 0 || from_y >= x.height || from_x < 0 || from_x >= x.width) continue;
              const int to = ((n * y.height + to_y) * y.width + to_x) * w.out,
                        from = ((n * x.height + from_y) * x.width + from_x) * x.channels;
              for (int out = 0; out < w.out; ++out)
                for (int in = 0; in < w.in; ++in) {
                  const int channel = out / (w.out / c.groups) * w.in + in,
                            weight = ((out * w.height + row) * w.width + column) * w.in + in;
                  f(static_cast<std::size_t>(to + out), static_cast<std::size_t>(from + channel),
                    static_cast<std::size_t>(weight));
                }
            }
  }
};

CudnnStatus propose(const char* call, const Sizes& sizes, int most, int* count, CudnnAlgorithm* all) {
  if (!sizes.fit() || sizes.c.math != cudnn_tensor_op_math || most < 4) return bad_parameter;
  const CudnnAlgorithm proposals[] = {
      {not_deterministic, success, 1, 0, 0, cudnn_tensor_op_math, {}},
      {unusable, 3000, -1, 0, cudnn_deterministic, cudnn_tensor_op_math, {}},
      {large, success, 2, std::size_t{1} << 40, cudnn_deterministic, cudnn_tensor_op_math, {}},
      {right, success, 3, workspace_bytes, cudnn_deterministic, cudnn_tensor_op_math, {}}};
  *count = fails("not_deterministic") ? 1 : 4;
  for (int i = 0; i < *count; ++i) all[i] = proposals[i];
  return fails(call) ? execution_failed : success;
}

CudnnStatus check(const char* call, const Sizes& sizes, const void* alpha, const void* beta, int algorithm,
                  const void* workspace, std::size_t bytes, std::initializer_list<const void*> memory) {
  if (fails(call)) return execution_failed;
  const bool fine = sizes.fit() && is_plain(alpha, beta) && algorithm == right &&
                    bytes >= std::size_t{workspace_bytes} && is_aligned(workspace) &&
                    sizes.c.math == cudnn_tensor_op_math;
  return fine && std::all_of(memory.begin(), memory.end(), is_aligned) ? success : bad_parameter;
}

struct NormSizes {
  CudnnTensorDescriptor x, channels;
  bool fit(const CudnnTensorDescriptor& y) const {
    const bool same = x.images == y.images && x.channels == y.channels && x.height == y.height &&
                      x.width == y.width && x.type == y.type && x.format == y.format;
    return same && x.type == cudnn_bfloat16 && x.format == cudnn_channels_last &&
           channels.type == cudnn_float && channels.images == 1 && channels.channels == x.channels &&
           channels.height == 1 && channels.width == 1;
  }
  std::size_t width() const { return static_cast<std::size_t>(x.channels); }
  std::size_t rows() const { return area(x.images, x.height, x.width); }
};

/// y = (x - mean) * scale * gain + bias, all but x of a channel.
void write_normalized(const NormSizes& s, const std::vector<float>& x, const float* gain, const float* bias,
                      const std::vector<double>& mean, const std::vector<double>& scale, void* y) {
  std::vector<float> out(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) {
    const std::size_t c = i % s.width();
    out[i] =
        static_cast<float>((static_cast<double>(x[i]) - mean[c]) * scale[c] * static_cast<double>(gain[c]) +
                           static_cast<double>(bias[c]));
  }
  from_floats(out, y);
}

template <typename Object>
CudnnStatus make(Object** to) {
  *to = new Object;
  return success;
}
template <typename Object>
CudnnStatus remove(Object* object) {
  delete object;
  return success;
}

}  // namespace

extern "C" {

CudnnStatus cudnnCreate(CudnnHandle* handle) { return make(handle); }
CudnnStatus cudnnDestroy(CudnnHandle handle) { return remove(handle); }
CudnnStatus cudnnSetStream(CudnnHandle handle, CUstream stream) {
  handle->stream = stream;
  return success;
}
std::size_t cudnnGetVersion() { return 90100; }
const char* cudnnGetErrorString(CudnnStatus status) {
  return status == bad_parameter ? "CUDNN_STATUS_BAD_PARAM" : "CUDNN_STATUS_EXECUTION_FAILED";
}

CudnnStatus cudnnCreateTensorDescriptor(CudnnTensor* tensor) { return make(tensor); }
CudnnStatus cudnnDestroyTensorDescriptor(CudnnTensor tensor) { return remove(tensor); }
CudnnStatus cudnnSetTensor4dDescriptor(CudnnTensor tensor, int format, int type, int images, int channels,
                                       int height, int width) {
  *tensor = {format, type, images, channels, height, width};
  return images > 0 && channels > 0 && height > 0 && width > 0 ? success : bad_parameter;
}
CudnnStatus cudnnCreateFilterDescriptor(CudnnFilter* filter) { return make(filter); }
CudnnStatus cudnnDestroyFilterDescriptor(CudnnFilter filter) { return remove(filter); }
CudnnStatus cudnnSetFilter4dDescriptor(CudnnFilter filter, int type, int format, int out, int in, int height,
                                       int width) {
  *filter = {type, format, out, in, height, width};
  return success;
}
CudnnStatus cudnnCreateConvolutionDescriptor(CudnnConvolutionDescriptor* convolution) {
  return make(convolution);
}
CudnnStatus cudnnDestroyConvolutionDescriptor(CudnnConvolutionDescriptor convolution) {
  return remove(convolution);
}
CudnnStatus cudnnSetConvolution2dDescriptor(CudnnConvolutionDescriptor convolution, int padding_y,
                                            int padding_x, int stride_y, int stride_x, int dilation_y,
                                            int dilation_x, int mode, int type) {
  if (padding_y != padding_x || stride_y != stride_x || dilation_y != 1 || dilation_x != 1 ||
      mode != cudnn_cross_correlation || type != cudnn_float)
    return bad_parameter;
  *convolution = {padding_y, stride_y, 1, 0};
  return success;
}
CudnnStatus cudnnSetConvolutionGroupCount(CudnnConvolutionDescriptor convolution, int groups) {
  convolution->groups = groups;
  return groups > 0 ? success : bad_parameter;
}
CudnnStatus cudnnSetConvolutionMathType(CudnnConvolutionDescriptor convolution, int math) {
  convolution->math = math;
  return success;
}

CudnnStatus cudnnGetConvolutionForwardAlgorithm_v7(CudnnHandle, CudnnTensor x, CudnnFilter w,
                                                   CudnnConvolutionDescriptor c, CudnnTensor y, int most,
                                                   int* count, CudnnAlgorithm* all) {
  return propose("cudnnGetConvolutionForwardAlgorithm_v7", {*x, *y, *w, *c}, most, count, all);
}
CudnnStatus cudnnGetConvolutionBackwardDataAlgorithm_v7(CudnnHandle, CudnnFilter w, CudnnTensor dy,
                                                        CudnnConvolutionDescriptor c, CudnnTensor dx,
                                                        int most, int* count, CudnnAlgorithm* all) {
  return propose("cudnnGetConvolutionBackwardDataAlgorithm_v7", {*dx, *dy, *w, *c}, most, count, all);
}
CudnnStatus cudnnGetConvolutionBackwardFilterAlgorithm_v7(CudnnHandle, CudnnTensor x, CudnnTensor dy,
                                                          CudnnConvolutionDescriptor c, CudnnFilter dw,
                                                          int most, int* count, CudnnAlgorithm* all) {
  return propose("cudnnGetConvolutionBackwardFilterAlgorithm_v7", {*x, *dy, *dw, *c}, most, count, all);
}

CudnnStatus cudnnConvolutionForward(CudnnHandle handle, const void* alpha, CudnnTensor x_tensor,
                                    const void* x, CudnnFilter filter, const void* w,
                                    CudnnConvolutionDescriptor convolution, int algorithm, void* workspace,
                                    std::size_t bytes, const void* beta, CudnnTensor y_tensor, void* y) {
  const Sizes s{*x_tensor, *y_tensor, *filter, *convolution};
  const CudnnStatus status =
      check("cudnnConvolutionForward", s, alpha, beta, algorithm, workspace, bytes, {x, w, y});
  if (status != success) return status;
  return enqueue(*handle, [s, x, w, y] {
    const auto from = to_floats(x, s.x_count()), weight = to_floats(w, s.w_count());
    std::vector<float> to(s.y_count());
    s.for_each_product([&](std::size_t o, std::size_t i, std::size_t at) { to[o] += from[i] * weight[at]; });
    from_floats(to, y);
  });
}

CudnnStatus cudnnConvolutionBackwardData(CudnnHandle handle, const void* alpha, CudnnFilter filter,
                                         const void* w, CudnnTensor dy_tensor, const void* dy,
                                         CudnnConvolutionDescriptor convolution, int algorithm,
                                         void* workspace, std::size_t bytes, const void* beta,
                                         CudnnTensor dx_tensor, void* dx) {
  const Sizes s{*dx_tensor, *dy_tensor, *filter, *convolution};
  const CudnnStatus status =
      check("cudnnConvolutionBackwardData", s, alpha, beta, algorithm, workspace, bytes, {w, dy, dx});
  if (status != success) return status;
  return enqueue(*handle, [s, w, dy, dx] {
    const auto from = to_floats(dy, s.y_count()), weight = to_floats(w, s.w_count());
    std::vector<float> to(s.x_count());
    s.for_each_product([&](std::size_t o, std::size_t i, std::size_t at) { to[i] += from[o] * weight[at]; });
    from_floats(to, dx);
  });
}

CudnnStatus cudnnConvolutionBackwardFilter(CudnnHandle handle, const void* alpha, CudnnTensor x_tensor,
                                           const void* x, CudnnTensor dy_tensor, const void* dy,
                                           CudnnConvolutionDescriptor convolution, int algorithm,
                                           void* workspace, std::size_t bytes, const void* beta,
                                           CudnnFilter filter, void* dw) {
  const Sizes s{*x_tensor, *dy_tensor, *filter, *convolution};
  const CudnnStatus status =
      check("cudnnConvolutionBackwardFilter", s, alpha, beta, algorithm, workspace, bytes, {x, dy, dw});
  if (status != success) return status;
  return enqueue(*handle, [s, x, dy, dw] {
    const auto from = to_floats(x, s.x_count()), d = to_floats(dy, s.y_count());
    std::vector<float> to(s.w_count());
    s.for_each_product([&](std::size_t o, std::size_t i, std::size_t at) { to[at] += d[o] * from[i]; });
    from_floats(to, dw);
  });
}

CudnnStatus cudnnBatchNormalizationForwardTraining(CudnnHandle handle, int mode, const void* alpha,
                                                   const void* beta, CudnnTensor x_tensor, const void* x,
                                                   CudnnTensor y_tensor, void* y, CudnnTensor channels,
                                                   const void* gain, const void* bias, double factor,
                                                   void* running_mean, void* running_variance, double epsilon,
                                                   void* mean, void* rstd) {
  if (fails("cudnnBatchNormalizationForwardTraining")) return execution_failed;
  const NormSizes s{*x_tensor, *channels};
  if (mode != cudnn_spatial || !is_plain(alpha, beta) || !s.fit(*y_tensor) || !is_aligned(x) ||
      !is_aligned(y) || x == y || factor < 0 || factor > 1)
    return bad_parameter;
  return enqueue(*handle, [=] {
    const auto from = to_floats(x, s.rows() * s.width());
    const auto rows = static_cast<double>(s.rows());
    std::vector<double> means(s.width()), squares(s.width()), scale(s.width());
    for (std::size_t i = 0; i < from.size(); ++i) means[i % s.width()] += static_cast<double>(from[i]) / rows;
    for (std::size_t i = 0; i < from.size(); ++i) {
      const double off = static_cast<double>(from[i]) - means[i % s.width()];
      squares[i % s.width()] += off * off;
    }
    const auto move = [factor](void* running, std::size_t at, double value) {
      float& to = static_cast<float*>(running)[at];
      to = static_cast<float>((1 - factor) * static_cast<double>(to) + factor * value);
    };
    for (std::size_t c = 0; c < s.width(); ++c) {
      scale[c] = 1 / std::sqrt(squares[c] / rows + epsilon);
      static_cast<float*>(mean)[c] = static_cast<float>(means[c]);
      static_cast<float*>(rstd)[c] = static_cast<float>(scale[c]);
      move(running_mean, c, means[c]);
      move(running_variance, c, squares[c] / (rows - 1));
    }
    write_normalized(s, from, static_cast<const float*>(gain), static_cast<const float*>(bias), means, scale,
                     y);
  });
}

CudnnStatus cudnnBatchNormalizationForwardInference(CudnnHandle handle, int mode, const void* alpha,
                                                    const void* beta, CudnnTensor x_tensor, const void* x,
                                                    CudnnTensor y_tensor, void* y, CudnnTensor channels,
                                                    const void* gain, const void* bias, const void* mean,
                                                    const void* variance, double epsilon) {
  const NormSizes s{*x_tensor, *channels};
  if (mode != cudnn_spatial || !is_plain(alpha, beta) || !s.fit(*y_tensor) || x == y) return bad_parameter;
  return enqueue(*handle, [=] {
    std::vector<double> means(s.width()), scale(s.width());
    for (std::size_t c = 0; c < s.width(); ++c) {
      means[c] = static_cast<double>(static_cast<const float*>(mean)[c]);
      scale[c] = 1 / std::sqrt(static_cast<double>(static_cast<const float*>(variance)[c]) + epsilon);
    }
    write_normalized(s, to_floats(x, s.rows() * s.width()), static_cast<const float*>(gain),
                     static_cast<const float*>(bias), means, scale, y);
  });
}

CudnnStatus cudnnBatchNormalizationBackward(CudnnHandle handle, int mode, const void* alpha, const void* beta,
                                            const void* channel_alpha, const void* channel_beta,
                                            CudnnTensor x_tensor, const void* x, CudnnTensor dy_tensor,
                                            const void* dy, CudnnTensor dx_tensor, void* dx,
                                            CudnnTensor channels, const void* gain, void* d_gain,
                                            void* d_bias, double, const void* mean, const void* rstd) {
  if (fails("cudnnBatchNormalizationBackward")) return execution_failed;
  const NormSizes s{*x_tensor, *channels};
  if (mode != cudnn_spatial || !is_plain(alpha, beta) || !is_plain(channel_alpha, channel_beta) ||
      !s.fit(*dy_tensor) || !s.fit(*dx_tensor) || dx == dy || dx == x)
    return bad_parameter;
  return enqueue(*handle, [=] {
    const auto from = to_floats(x, s.rows() * s.width()), d = to_floats(dy, from.size());
    const auto value = [](const void* of, std::size_t c) {
      return static_cast<double>(static_cast<const float*>(of)[c]);
    };
    const auto h = [&](std::size_t i) {
      return (static_cast<double>(from[i]) - value(mean, i % s.width())) * value(rstd, i % s.width());
    };
    std::vector<double> sum(s.width()), dot(s.width());
    for (std::size_t i = 0; i < d.size(); ++i) {
      sum[i % s.width()] += static_cast<double>(d[i]);
      dot[i % s.width()] += static_cast<double>(d[i]) * h(i);
    }
    const auto rows = static_cast<double>(s.rows());
    std::vector<float> to(d.size());
    for (std::size_t i = 0; i < d.size(); ++i) {
      const std::size_t c = i % s.width();
      to[i] = static_cast<float>(value(gain, c) * value(rstd, c) *
                                 (static_cast<double>(d[i]) - sum[c] / rows - h(i) * dot[c] / rows));
    }
    for (std::size_t c = 0; c < s.width(); ++c) {
      static_cast<float*>(d_gain)[c] = static_cast<float>(dot[c]);
      static_cast<float*>(d_bias)[c] = static_cast<float>(sum[c]);
    }
    from_floats(to, dx);
  });
}

}  // extern "C"
