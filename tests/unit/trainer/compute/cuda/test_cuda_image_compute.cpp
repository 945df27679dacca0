// SPDX-License-Identifier: Apache-2.0
// CudaImageCompute: convolutions and batch normalization, and whole passes of networks, against the CPU's.
#include <cmath>
#include <cstdlib>
#include <span>

#include "catch.hpp"
#include "models/conv_net.hpp"
#include "models/mobilenet.hpp"
#include "models/resnet.hpp"
#include "trainer/fakes/gpu_or_doubles.hpp"
#include "trainer/models/model_fixture.hpp"
#include "trainer/models/relative_distance.hpp"

namespace image_tests {

using namespace muster::compute;
using muster::bfloat16;
using muster::compute::cuda::CudaCompute;
using muster::models::ConvNet;
using muster::models::ImageNetwork;

namespace {

std::vector<float> random_floats(std::size_t count, std::uint64_t stream) {
  std::vector<float> out(count);
  for (std::size_t i = 0; i < count; ++i)
    out[i] = static_cast<float>(bfloat16(static_cast<float>(muster::normal(5, stream, i))));
  return out;
}
std::vector<bfloat16> narrow(const std::vector<float>& values) {
  std::vector<bfloat16> out;
  for (const float value : values) out.emplace_back(value);
  return out;
}
template <typename Number>
std::vector<double> exact(const std::vector<Number>& values) {
  std::vector<double> out;
  for (const Number value : values) out.push_back(static_cast<double>(static_cast<float>(value)));
  return out;
}
template <typename Number>
double distance(const std::vector<Number>& found, const std::vector<double>& expected) {
  return relative_distance(exact(found).data(), expected.data(), expected.size());
}
/// Of a result that is rounded to bfloat16 once, and of one that is not.
constexpr double once = 2.5e-3, in_float = 1e-5;

struct Both {
  TestGpu test_gpu;
  CudaCompute compute{{}};
  ImageCompute<bfloat16>& gpu = *compute.images();
  muster::compute::cpu::CpuCompute<double> cpu_compute{{1, false, nullptr}};
  ImageCompute<double>& cpu = *cpu_compute.images();
  OnDevice<bfloat16> send(const std::vector<float>& values) { return {compute.memory(), narrow(values)}; }
  template <typename Number>
  OnDevice<Number> allocate(std::size_t count) {
    return {compute.memory(), count};
  }
};

void check_convolution(const ConvolutionShape& s) {
  CAPTURE(s.in, s.out, s.window, s.stride, s.groups);
  Both on;
  const auto batch = static_cast<std::size_t>(s.batch), out_channels = static_cast<std::size_t>(s.out),
             in = batch * s.in_pixels() * static_cast<std::size_t>(s.in),
             out = batch * s.out_pixels() * out_channels;
  const auto x = random_floats(in, 1), weight = random_floats(s.weights(), 2),
             bias = random_floats(out_channels, 3), d_out = random_floats(out, 4);
  auto gx = on.send(x), gw = on.send(weight), gb = on.send(bias), gd = on.send(d_out);
  auto y = on.allocate<bfloat16>(out), d_x = on.allocate<bfloat16>(in);
  auto d_weight = on.allocate<float>(s.weights()), d_bias = on.allocate<float>(out_channels);
  std::vector<double> expected(out), d_x_expected(in), d_w_expected(s.weights()), d_b_expected(out_channels);
  const auto ex = exact(x), ew = exact(weight), ed = exact(d_out);
  on.gpu.convolve(s, gx.data(), gw.data(), nullptr, y.data());
  on.cpu.convolve(s, ex.data(), ew.data(), nullptr, expected.data());
  CHECK(distance(y.values(), expected) < once);
  on.gpu.convolve(s, gx.data(), gw.data(), gb.data(), y.data());
  on.cpu.convolve(s, ex.data(), ew.data(), exact(bias).data(), expected.data());
  CHECK(distance(y.values(), expected) < 2 * once);
  on.gpu.convolve_backward_images(s, gd.data(), gw.data(), d_x.data());
  on.cpu.convolve_backward_images(s, ed.data(), ew.data(), d_x_expected.data());
  CHECK(distance(d_x.values(), d_x_expected) < once);
  on.gpu.convolve_backward_weight(s, gx.data(), gd.data(), d_weight.data(), d_bias.data());
  on.cpu.convolve_backward_weight(s, ex.data(), ed.data(), d_w_expected.data(), d_b_expected.data());
  CHECK(distance(d_weight.values(), d_w_expected) < once);
  CHECK(distance(d_bias.values(), d_b_expected) < in_float);
}

/// A number of images with so many pixels and channels. `sync`: with another rank that has equal images.
struct NormCase {
  int batch, pixels, channels;
  bool add, rectify, sync = false;
};

/// The all-reduce of two ranks with equal values in this memory.
BatchNorm<double>::AllReduce double_values(Memory& memory) {
  return [&memory](std::span<double> values) {
    std::vector<double> twice(values.size());
    memory.copy_out(twice.data(), values.data(), values.size_bytes());
    for (double& value : twice) value *= 2;
    memory.copy_in(values.data(), twice.data(), values.size_bytes());
  };
}

void check_batch_norm(const NormCase& c) {
  CAPTURE(c.channels, c.add, c.rectify);
  Both on;
  const auto channels = static_cast<std::size_t>(c.channels),
             count = static_cast<std::size_t>(c.batch * c.pixels) * channels;
  const auto x = random_floats(count, 1), addend = random_floats(count, 2), d_out = random_floats(count, 3),
             d_also = random_floats(count, 4), gain = random_floats(channels, 5),
             bias = random_floats(channels, 6);
  auto gx = on.send(x), ga = on.send(addend), gd = on.send(d_out), gd2 = on.send(d_also);
  OnDevice<float> gg(on.compute.memory(), gain), gb(on.compute.memory(), bias);
  auto out = on.allocate<bfloat16>(count), d_x = on.allocate<bfloat16>(count);
  auto saved = on.allocate<float>(2 * channels), statistics = on.allocate<float>(2 * channels),
       d_gain = on.allocate<float>(channels), d_bias = on.allocate<float>(channels);
  const auto ex = exact(x), ea = exact(addend), eg = exact(gain), eb = exact(bias), e_also = exact(d_also);
  std::vector<double> expected(count), mean(channels), rstd(channels), batch_mean(channels),
      variance(channels), d_expected = exact(d_out), d_x_expected(count), dg(channels), db(channels);
  const auto on_gpu_ranks = double_values(on.compute.memory()), on_cpu_ranks = double_values(host_memory());
  const BatchNorm<bfloat16> norm{c.batch,
                                 c.pixels,
                                 c.channels,
                                 gx.data(),
                                 gg.data(),
                                 gb.data(),
                                 c.add ? ga.data() : nullptr,
                                 c.rectify,
                                 out.data(),
                                 saved.data(),
                                 saved.data() + channels,
                                 c.sync ? &on_gpu_ranks : nullptr};
  const BatchNorm<double> on_cpu{c.batch,
                                 c.pixels,
                                 c.channels,
                                 ex.data(),
                                 eg.data(),
                                 eb.data(),
                                 c.add ? ea.data() : nullptr,
                                 c.rectify,
                                 expected.data(),
                                 mean.data(),
                                 rstd.data(),
                                 c.sync ? &on_cpu_ranks : nullptr};
  on.gpu.normalize(norm, statistics.data(), statistics.data() + channels, 0.5);
  on.cpu.normalize(on_cpu, batch_mean.data(), variance.data(), 0.5);
  const auto result = out.values();
  CHECK(distance(result, expected) < 2 * once);
  auto both = batch_mean;
  both.insert(both.end(), variance.begin(), variance.end());
  CHECK(distance(statistics.values(), both) < in_float);
  // The same elements pass ReLU.
  for (std::size_t i = 0; i < count; ++i) expected[i] = static_cast<double>(static_cast<float>(result[i]));
  const bool in_place = !c.add;
  on.gpu.normalize_backward(norm, gd.data(), c.add ? gd2.data() : nullptr, in_place ? gd.data() : d_x.data(),
                            d_gain.data(), d_bias.data());
  on.cpu.normalize_backward(on_cpu, d_expected.data(), c.add ? e_also.data() : nullptr,
                            in_place ? d_expected.data() : d_x_expected.data(), dg.data(), db.data());
  CHECK(distance(gd.values(), d_expected) < 2 * once);
  if (!in_place) CHECK(distance(d_x.values(), d_x_expected) < 2 * once);
  CHECK(distance(d_gain.values(), dg) < 2 * once);
  CHECK(distance(d_bias.values(), db) < 2 * once);

  std::vector<float> spread(channels, 2.0f);
  OnDevice<float> running(on.compute.memory(), spread);
  const std::vector<double> exact_running(channels, 2.0);
  on.gpu.normalize_by(norm, running.data(), running.data());
  on.cpu.normalize_by(on_cpu, exact_running.data(), exact_running.data());
  CHECK(distance(out.values(), expected) < 2 * once);
}

struct Pass {
  double loss = 0, validation_loss = 0;
  std::int64_t right = 0;
  std::vector<double> gradients;
};

constexpr int batch = 6;

/// The gradients of a step, and the loss with the running statistics.
template <typename Real>
Pass pass(const ImageNetwork& network, Compute<Real>& compute) {
  using Sum = Accurate<Real>;
  ConvNet<Real> model(network, batch, compute);
  Memory& memory = compute.memory();
  auto& tensors = model.tensors();
  muster::models::ModelTensors<Sum> on_host(network.table);
  on_host.initialize(3);
  for (std::size_t i = 0; i < network.table.tensors.size(); ++i) {
    const auto& tensor = network.table.tensors[i];
    // Without biases the gradient of a gain in front of another normalization is zero.
    const double spread = tensor.is_trained && tensor.shape.size() == 1 ? 0.3 : 0;
    for (std::size_t j = 0; j < tensor.count; ++j) {
      const double value = static_cast<double>(on_host.parameter(i)[j]) + spread * muster::normal(9, i, j);
      on_host.parameter(i)[j] = Sum(static_cast<float>(bfloat16(static_cast<float>(value))));
    }
  }
  memory.copy_in(tensors.parameters().data(), on_host.parameters().data(),
                 tensors.parameters().size() * sizeof(Sum));
  tensors.round_parameters(compute);
  const auto to_device = [&](const std::vector<float>& values) {
    return OnDevice<Real>(memory, std::vector<Real>(values.begin(), values.end()));
  };
  auto images = to_device(random_floats(batch * network.images().elements(), 7));
  std::vector<OnDevice<Real>> factors;
  typename ConvNet<Real>::Dropout dropout;
  factors.reserve(network.dropout.size());
  for (const int channels : network.dropout) {
    auto drawn = random_floats(static_cast<std::size_t>(batch * channels), 8);
    for (float& factor : drawn) factor = factor > -0.5F ? 1.5F : 0;
    dropout.push_back(factors.emplace_back(to_device(drawn)).data());
  }
  const Token labels[batch] = {2, 0, 1, 1, 0, 2};
  compute.begin_step(1, 1);
  const auto result = model.loss_and_gradients(images.data(), labels, batch, dropout, Sum(1.0 / batch));
  Pass found{result.loss, 0, result.right, {}};
  std::vector<Sum> gradients(tensors.gradients().size());
  memory.copy_out(gradients.data(), tensors.gradients().data(), gradients.size() * sizeof(Sum));
  found.gradients.assign(gradients.begin(), gradients.end());
  const auto validation = model.loss(images.data(), labels, batch);
  found.validation_loss = validation.loss;
  found.right += 10 * validation.right;
  return found;
}

/// |a - b|
double length_of(const double* a, const double* b, std::size_t count) {
  double sum = 0;
  for (std::size_t i = 0; i < count; ++i) sum += (a[i] - b[i]) * (a[i] - b[i]);
  return std::sqrt(sum);
}

ImageNetwork tiny_network() {
  muster::models::NetworkBuilder build({4, 4, 3});
  const std::size_t x = build.batch_norm(build.convolution(0, "conv", 8, {3, 1, 1}), "bn", true);
  build.linear(build.mean_pool(x), "fc", 3);
  return build.take("tiny");
}

/// With the kinds of layers of mnist-cnn.
ImageNetwork network_with_dropout() {
  muster::models::NetworkBuilder build({8, 9, 1});
  std::size_t x = build.relu(build.convolution_with_bias(0, "conv1", 6, {3, 1, 0}), false);
  x = build.relu(build.max_pool(build.convolution_with_bias(x, "conv2", 10, {3, 1, 1}), {2, 2, 0}), true);
  x = build.relu(build.linear(build.flatten(x), "fc1", 20), true);
  build.linear(x, "fc2", 3);
  return build.take("dropout");
}

/// What the network says when this call of cuDNN fails.
std::string message_of(const char* call) {
  setenv("FAKE_CUDNN", call, 1);
  std::string message;
  try {
    const TestGpu test_gpu;
    CudaCompute compute({});
    pass(tiny_network(), compute);
  } catch (const muster::Error& error) {
    message = error.what();
  }
  unsetenv("FAKE_CUDNN");
  return message;
}

}  // namespace

TEST_CASE("convolutions by cuDNN and their gradients", "[gpu operations][cudnn]") {
  for (const ConvolutionShape& shape :
       {ConvolutionShape{2, 9, 7, 3, 16, 3, 1, 1, 1}, ConvolutionShape{2, 5, 6, 16, 8, 3, 2, 1, 1},
        ConvolutionShape{2, 4, 4, 8, 10, 1, 2, 0, 1}, ConvolutionShape{2, 7, 5, 8, 8, 3, 2, 1, 8},
        ConvolutionShape{5, 1, 1, 24, 10, 1, 1, 0, 1}})
    check_convolution(shape);
}

TEST_CASE("batch normalization by cuDNN, its statistics and gradients", "[gpu operations][cudnn]") {
  for (const NormCase& each :
       {NormCase{3, 20, 16, false, true}, NormCase{3, 20, 8, true, true}, NormCase{2, 9, 24, false, false}})
    check_batch_norm(each);
}

TEST_CASE("batch normalization over ranks, its statistics and gradients", "[gpu operations][cudnn]") {
  for (const NormCase& each : {NormCase{3, 20, 16, false, true, true}, NormCase{3, 20, 8, true, true, true},
                               NormCase{2, 20, 21, false, false, true}})
    check_batch_norm(each);
}

TEST_CASE("a network's loss and gradients on the GPU are as near to double as the CPU's in bfloat16",
          "[gpu training][cudnn]") {
  using muster::models::ImageSize;
  const ImageNetwork network =
      GENERATE(muster::models::resnet_cifar(1, 3, ImageSize{8, 8, 3}),
               muster::models::mobilenet_v1(0.1, 5, ImageSize{16, 16, 3}), network_with_dropout());
  CAPTURE(network.text);
  auto exact_compute = test_compute<double>();
  auto narrow_compute = test_compute<bfloat16>();
  const Pass exact = pass(network, exact_compute), narrow = pass(network, narrow_compute);
  const TestGpu test_gpu;
  CudaCompute compute({});
  const Pass found = pass(network, compute);
  const auto is_near = [](double value, double theirs, double expected) {
    return std::abs(value - expected) < 1.5 * std::abs(theirs - expected) + 2e-2 * expected;
  };
  CHECK(is_near(found.loss, narrow.loss, exact.loss));
  CHECK(is_near(found.validation_loss, narrow.validation_loss, exact.validation_loss));
  if (TestGpu::is_fake) CHECK(found.right == exact.right);
  const std::vector<double> zeros(exact.gradients.size());
  const auto size = [&](const double* of, std::size_t count) { return length_of(of, zeros.data(), count); };
  const double whole = size(exact.gradients.data(), zeros.size());
  for (const auto& tensor : network.table.tensors) {
    CAPTURE(tensor.name);
    const double* const expected = &exact.gradients[tensor.offset];
    const double theirs = length_of(&narrow.gradients[tensor.offset], expected, tensor.count);
    CHECK(length_of(&found.gradients[tensor.offset], expected, tensor.count) <
          1.5 * theirs + 2e-2 * size(expected, tensor.count) + 1e-2 * whole);
  }
  CHECK(pass(network, compute).gradients == found.gradients);
}

TEST_CASE("when cuDNN is missing or a call fails, one line says so", "[gpu training][cudnn]") {
  if (!TestGpu::is_fake) return;
  {
    const TestGpu without;
    setenv("MUSTER_CUDNN_LIBRARY", "/nowhere/libcudnn.so", 1);
    CudaCompute compute({});
    CHECK_THROWS_WITH(
        compute.images(),
        Catch::Matchers::StartsWith("/nowhere/libcudnn.so: ") &&
            Catch::Matchers::EndsWith("; the trainer needs cuDNN 9 or 8 for networks on images with "
                                      "--device=cuda: load its module, name the file in "
                                      "MUSTER_CUDNN_LIBRARY, or pass --device=cpu"));
  }
  const std::string convolution = "6 images of 4 x 4 with 3 channels to 8, window 3, stride 1, padding 1";
  CHECK(message_of("cudnnConvolutionForward") ==
        "cuDNN failed: cudnnConvolutionForward for " + convolution + ": CUDNN_STATUS_EXECUTION_FAILED");
  CHECK(message_of("not_deterministic") ==
        "cuDNN 9.1.0 has no deterministic algorithm for cudnnConvolutionForward of " + convolution +
            ": pass --device=cpu");
  CHECK(message_of("cudnnBatchNormalizationBackward") ==
        "cuDNN failed: cudnnBatchNormalizationBackward for 6 images of 16 pixels with 8 channels: "
        "CUDNN_STATUS_EXECUTION_FAILED");
}

TEST_CASE("with MUSTER_CUDA_CHECK the error of cuDNN's work names the call") {
  if (!TestGpu::is_fake) return;
  setenv("MUSTER_CUDA_CHECK", "1", 1);
  Both on;
  unsetenv("MUSTER_CUDA_CHECK");
  // With a window of one pixel no kernel of ours comes before cuDNN's.
  const ConvolutionShape s{2, 4, 4, 8, 16, 1, 1, 0, 1};
  const std::size_t in = 2 * 16 * 8, out = 2 * 16 * 16;
  auto x = on.send(random_floats(in, 1)), weight = on.send(random_floats(s.weights(), 2));
  auto y = on.allocate<bfloat16>(out), d_x = on.allocate<bfloat16>(in);
  auto f = on.allocate<float>(s.weights());
  BatchNorm<bfloat16> norm{2,       16,    8,        x.data(), f.data(), f.data(),
                           nullptr, false, y.data(), f.data(), f.data()};
  setenv("FAKE_CUDA", "stream_error", 1);
  const std::string of_convolution = " for 2 images of 4 x 4 with 8 channels to 16",
                    of_norm = " for 2 images of 16 pixels with 8 channels";
  const auto says = [](const std::string& work) { return Catch::Matchers::ContainsSubstring(work); };
  CHECK_THROWS_WITH(on.gpu.convolve(s, x.data(), weight.data(), nullptr, y.data()),
                    says("cudnnConvolutionForward" + of_convolution));
  CHECK_THROWS_WITH(on.gpu.convolve_backward_images(s, y.data(), weight.data(), d_x.data()),
                    says("cudnnConvolutionBackwardData" + of_convolution));
  CHECK_THROWS_WITH(on.gpu.convolve_backward_weight(s, x.data(), y.data(), f.data(), nullptr),
                    says("cudnnConvolutionBackwardFilter" + of_convolution));
  CHECK_THROWS_WITH(on.gpu.normalize(norm, f.data(), f.data(), 0.5),
                    says("cudnnBatchNormalizationForwardTraining" + of_norm));
  CHECK_THROWS_WITH(on.gpu.normalize_by(norm, f.data(), f.data()),
                    says("cudnnBatchNormalizationForwardInference" + of_norm));
  CHECK_THROWS_WITH(on.gpu.normalize_backward(norm, y.data(), nullptr, d_x.data(), f.data(), f.data()),
                    says("cudnnBatchNormalizationBackward" + of_norm));
  setenv("FAKE_CUDA", "", 1);
}

}  // namespace image_tests
