// SPDX-License-Identifier: Apache-2.0
#include "models/mnist_cnn.hpp"

#include <cmath>

#include "compute/cpu/image_operations.hpp"
#include "models/linear.hpp"
#include "muster/error.hpp"

namespace muster::models {

namespace cpu = compute::cpu;

namespace {

enum CnnTensor { weight1, bias1, weight2, bias2, hidden_weight, hidden_bias, class_weight, class_bias };

constexpr int channels1 = 10, channels2 = 20, window = 5, features = 320;

cpu::UnfoldShape convolution1(int batch) { return {batch, 28, 28, 1, window}; }
cpu::UnfoldShape convolution2(int batch) { return {batch, 12, 12, channels1, window}; }
cpu::FourPixelShape pooling1(int batch) { return {batch, 24, 24, channels1, false}; }
/// The next layer takes [channels, height, width], as PyTorch flattens it.
cpu::FourPixelShape pooling2(int batch) { return {batch, 8, 8, channels2, true}; }

}  // namespace

TensorTable mnist_cnn_tensors() {
  TableBuilder build;
  const auto layer = [&](const std::string& name, std::vector<std::int64_t> shape) {
    double fan_in = 1;
    for (std::size_t i = 1; i < shape.size(); ++i) fan_in *= static_cast<double>(shape[i]);
    const std::int64_t outputs = shape[0];
    const double bound = 1 / std::sqrt(fan_in);
    build.add(name + ".weight", std::move(shape), true, bound, 0, Distribution::uniform);
    build.add(name + ".bias", {outputs}, false, bound, 0, Distribution::uniform);
  };
  layer("conv1", {channels1, 1, window, window});
  layer("conv2", {channels2, channels1, window, window});
  layer("fc1", {MnistCnn<float>::hidden, features});
  layer("fc2", {MnistCnn<float>::classes, MnistCnn<float>::hidden});
  return build.take();
}

double mnist_cnn_flops_per_image() {
  const auto multiplications = [](const cpu::UnfoldShape& s, int outputs) {
    return static_cast<double>(s.window_positions()) * s.window_size() * outputs;
  };
  const double first = multiplications(convolution1(1), channels1);
  const double others = multiplications(convolution2(1), channels2) +
                        MnistCnn<float>::hidden * (features + MnistCnn<float>::classes);
  return 4 * first + 6 * others;
}

template <typename Real>
MnistCnn<Real>::MnistCnn(int max_batch, compute::Compute<Real>& compute, std::size_t extra)
    : tensors_(mnist_cnn_tensors(), extra, std::is_same_v<Real, bfloat16>),
      max_batch_(max_batch),
      compute_(compute) {
  if (!compute.memory().is_host())
    throw Error(ErrorCode::usage, "the GPU trains GPTs only: pass --device=cpu for image models");
  lay_out_activations();
}

template <typename Real>
void MnistCnn<Real>::lay_out_activations() {
  const auto positions1 = static_cast<std::size_t>(convolution1(max_batch_).window_positions()),
             positions2 = static_cast<std::size_t>(convolution2(max_batch_).window_positions()),
             batch = static_cast<std::size_t>(max_batch_);
  Layout<Real> layout;
  layout.reserve(&columns1_, positions1 * window * window);
  for (Real** p : {&convolution1_, &d_convolution1_}) layout.reserve(p, positions1 * channels1);
  for (Real** p : {&pool1_, &d_pool1_}) layout.reserve(p, positions1 / 4 * channels1);
  for (Real** p : {&columns2_, &d_columns2_}) layout.reserve(p, positions2 * channels1 * window * window);
  for (Real** p : {&convolution2_, &d_convolution2_}) layout.reserve(p, positions2 * channels2);
  for (Real** p : {&pool2_, &d_pool2_}) layout.reserve(p, batch * features);
  for (Real** p : {&hidden_sum_, &hidden_, &d_hidden_}) layout.reserve(p, batch * hidden);
  layout.reserve(&logits_, batch * classes);
  activations_ = layout.allocate(compute_.memory());
}

template <typename Real>
void MnistCnn<Real>::forward(const Real* images, int batch, const Dropout<Real>& dropout) {
  const auto first = convolution1(batch), second = convolution2(batch);
  const int threads = compute_.threads();
  const auto product = [&](const Real* input, int rows, int from, std::size_t weight, int to, Real* out) {
    compute_.matmul({rows, to, from, false, true, true, false}, input, tensors_.template weight<Real>(weight),
                    tensors_.template weight<Real>(weight + 1), out);
  };
  cpu::unfold(threads, first, images, columns1_);
  product(columns1_, first.window_positions(), first.window_size(), weight1, channels1, convolution1_);
  cpu::max_pool_relu<Real>(threads, pooling1(batch), convolution1_, nullptr, pool1_);
  cpu::unfold(threads, second, pool1_, columns2_);
  product(columns2_, second.window_positions(), second.window_size(), weight2, channels2, convolution2_);
  cpu::max_pool_relu(threads, pooling2(batch), convolution2_, dropout.channels, pool2_);
  product(pool2_, batch, features, hidden_weight, hidden, hidden_sum_);
  cpu::relu(hidden_sum_, dropout.hidden, hidden_, static_cast<std::size_t>(batch) * hidden);
  product(hidden_, batch, hidden, class_weight, classes, logits_);
}

template <typename Real>
typename MnistCnn<Real>::Result MnistCnn<Real>::loss(const Real* images, const compute::Token* labels,
                                                     int batch, const Dropout<Real>& dropout) {
  forward(images, batch, dropout);
  Result result;
  result.right = cpu::count_correct(logits_, labels, batch, classes);
  result.loss = compute_.cross_entropy(logits_, labels, batch, classes, Sum(0));
  return result;
}

template <typename Real>
typename MnistCnn<Real>::Result MnistCnn<Real>::loss_and_gradients(const Real* images,
                                                                   const compute::Token* labels, int batch,
                                                                   const Dropout<Real>& dropout,
                                                                   Sum gradient_scale, const Ready& ready) {
  forward(images, batch, dropout);
  Result result;
  result.right = cpu::count_correct(logits_, labels, batch, classes);
  result.loss = compute_.cross_entropy(logits_, labels, batch, classes, gradient_scale);
  backward(batch, dropout, ready);
  return result;
}

template <typename Real>
void MnistCnn<Real>::backward(int batch, const Dropout<Real>& dropout, const Ready& ready) {
  const auto first = convolution1(batch), second = convolution2(batch);
  const int threads = compute_.threads();
  const auto product = [&](const Real* input, int rows, int from, std::size_t weight, int to,
                           const Real* d_out, Real* d_input) {
    linear_backward(compute_, input, tensors_.template weight<Real>(weight), d_out, d_input,
                    tensors_.gradient(weight), tensors_.gradient(weight + 1), rows, from, to);
    ready(weight + 1);
    ready(weight);
  };
  product(hidden_, batch, hidden, class_weight, classes, logits_, d_hidden_);
  cpu::relu_backward(hidden_, dropout.hidden, d_hidden_, static_cast<std::size_t>(batch) * hidden);
  product(pool2_, batch, features, hidden_weight, hidden, d_hidden_, d_pool2_);
  cpu::max_pool_relu_backward(threads, pooling2(batch), convolution2_, dropout.channels, pool2_, d_pool2_,
                              d_convolution2_);
  product(columns2_, second.window_positions(), second.window_size(), weight2, channels2, d_convolution2_,
          d_columns2_);
  cpu::fold(threads, second, d_columns2_, d_pool1_);
  cpu::max_pool_relu_backward<Real>(threads, pooling1(batch), convolution1_, nullptr, pool1_, d_pool1_,
                                    d_convolution1_);
  product(columns1_, first.window_positions(), first.window_size(), weight1, channels1, d_convolution1_,
          nullptr);
}

template class MnistCnn<float>;
template class MnistCnn<double>;
template class MnistCnn<bfloat16>;

}  // namespace muster::models
