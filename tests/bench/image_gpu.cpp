// SPDX-License-Identifier: Apache-2.0
// A network on images on one GPU: bench_image_gpu [NETWORK [BATCH]], by default resnet50 and 64 images, which
// are 224 x 224 for resnet50 and mobilenet-v1 and as the data has them for the others. Times one forward and
// backward pass without update, then each operation by itself, at the sizes of all layers that have it, on
// random numbers: the sum over these layers, the least bytes that the operation must move, what it reaches,
// and that beside the roofline: the time that its products at the measured peak, or its bytes at the
// bandwidth of a copy, would take. A layer whose tensors fit into the GPU's cache can be faster. "by cuDNN":
// its kernels do most of the work.
//
// NETWORK "tiny", which has every kind of layer, is for a fake GPU. Exit code 77 without a GPU.
#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "gpu_timing.hpp"
#include "machine/measure_peak_flops.hpp"
#include "models/conv_net.hpp"
#include "models/named_network.hpp"
#include "muster/error.hpp"
#include "muster/philox.hpp"

using namespace muster;
using compute::Arena;
using compute::cuda::CudaCompute;
using models::ImageNetwork;
using models::Layer;
using models::LayerKind;

namespace {

constexpr int runs = 5;

ImageNetwork tiny_network() {
  models::NetworkBuilder build({8, 8, 3});
  std::size_t x = build.batch_norm(build.convolution(0, "conv1", 8, {3, 1, 1}), "bn1", true);
  const std::size_t around = build.shortcut(x, 16);
  x = build.batch_norm(build.convolution(x, "conv2", 16, {3, 2, 1}), "bn2", true, around);
  x = build.max_pool(x, {2, 2, 0});
  x = build.relu(build.convolution_with_bias(x, "conv3", 16, {1, 1, 0}), true);
  build.linear(build.flatten(build.mean_pool(x)), "fc", 10);
  return build.take("tiny");
}

ImageNetwork find_network(const std::string& name) {
  if (name == "tiny") return tiny_network();
  if (!models::is_image_network(name))
    throw Error(ErrorCode::usage, name + " is no network on images: resnet50, mobilenet-v1, …");
  const bool is_large = name == "resnet50" || name == "mobilenet-v1";
  return models::named_network(name, 1, is_large ? 1000 : 10,
                               is_large ? models::ImageSize{224, 224, 3} : models::ImageSize{32, 32, 3});
}

std::vector<compute::Token> random_labels(int count, int classes) {
  std::vector<compute::Token> labels(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < labels.size(); ++i)
    labels[i] = static_cast<compute::Token>(uniform_bits(1, 2, i) % static_cast<std::uint64_t>(classes));
  return labels;
}

/// Memory that each layer's operations share.
struct Buffers {
  Buffers(const ImageNetwork& network, int batch, CudaCompute& on) {
    std::size_t most = 0, channels = 0, weights = 0;
    for (const Layer& layer : network.layers) {
      most = std::max(most, static_cast<std::size_t>(batch) * layer.out.elements());
      channels = std::max(channels, static_cast<std::size_t>(layer.out.channels));
      if (layer.is_product()) weights = std::max(weights, network.table.tensors[layer.weight].count);
    }
    for (Arena<bfloat16>* const each : {&x, &out, &d_out, &d_x}) {
      *each = Arena<bfloat16>(most, on.gpu());
      fill(*each, most, 1, on);
    }
    weight = Arena<bfloat16>(weights, on.gpu());
    fill(weight, weights, 0.02f, on);
    factor = Arena<bfloat16>(static_cast<std::size_t>(batch) * channels, on.gpu());
    fill(factor, factor.size(), 1, on);
    places = Arena<std::uint8_t>(most, on.gpu());
    d_weight = Arena<float>(weights, on.gpu());
    for (Arena<float>* const each : {&gain, &bias, &mean, &rstd, &batch_mean, &batch_variance}) {
      *each = Arena<float>(channels, on.gpu());
      fill(*each, channels, 1, on);
    }
  }
  Arena<bfloat16> x, out, d_out, d_x, weight, factor;
  Arena<std::uint8_t> places;
  Arena<float> d_weight, gain, bias, mean, rstd, batch_mean, batch_variance;
};

/// An operation at the size of one layer.
struct Call {
  double flops = 0, bytes = 0;
  std::function<void()> work;
};

class Operations {
 public:
  Operations(const ImageNetwork& network, int batch, CudaCompute& on, double pass_seconds, const Peaks& peaks)
      : network_(network),
        batch_(batch),
        on_(on),
        images_(*on.images()),
        pass_seconds_(pass_seconds),
        peaks_(peaks),
        b_(network, batch, on) {}

  void time_products();
  void time_norms();
  void time_activations();
  void time_pools();
  void time_end();

 private:
  using CallOf = std::function<std::optional<Call>(const Layer&)>;
  /// Times an operation at the sizes of the layers for which there is a call, and prints the sum at once.
  void time(const char* name, const CallOf& call_of);
  double elements(const models::ImageSize& size) const {
    return static_cast<double>(batch_) * static_cast<double>(size.elements());
  }
  const models::ImageSize& input(const Layer& layer) const { return network_.layers[layer.input].out; }
  compute::BatchNorm<bfloat16> batch_norm(const Layer& layer) {
    return {.batch = batch_,
            .pixels = static_cast<int>(layer.out.pixels()),
            .channels = layer.out.channels,
            .x = b_.x.data(),
            .gain = b_.gain.data(),
            .bias = b_.bias.data(),
            .out = b_.out.data(),
            .mean = b_.mean.data(),
            .rstd = b_.rstd.data()};
  }
  void time_norm(const char* forward, const char* backward,
                 const compute::BatchNorm<bfloat16>::AllReduce* all_reduce);

  const ImageNetwork& network_;
  int batch_;
  CudaCompute& on_;
  compute::ImageCompute<bfloat16>& images_;
  double pass_seconds_;
  Peaks peaks_;
  Buffers b_;
};

void Operations::time(const char* name, const CallOf& call_of) {
  struct Least {
    double part = 0;
    models::ImageSize from, to;
  };
  std::map<std::array<int, 9>, double> measured;  // layers of the same sizes take the same time
  int calls = 0;
  double seconds = 0, flops = 0, bytes = 0, roofline = 0;
  std::optional<Least> least;
  for (std::size_t number = 1; number < network_.layers.size(); ++number) {
    const Layer& layer = network_.layers[number];
    const auto call = call_of(layer);
    if (!call) continue;
    const auto &from = input(layer), &to = layer.out;
    const auto [found, is_new] =
        measured.try_emplace({from.height, from.width, from.channels, to.height, to.width, to.channels,
                              layer.window, layer.stride, layer.groups});
    if (is_new) found->second = measure_seconds(on_, runs, call->work);
    const double at_best = peaks_.roofline_seconds(call->flops, call->bytes), part = at_best / found->second;
    if (!least || part < least->part) least = {part, from, to};
    ++calls;
    seconds += found->second, flops += call->flops, bytes += call->bytes, roofline += at_best;
  }
  if (!least) return;
  std::printf(
      "  %-34s %8.3f ms in %3d  %5.1f%% of a pass  %10.3f MB  %6.1f TFLOP/s  %7.1f GB/s  %5.1f%% of "
      "roofline, least %5.1f%%: %d x %d x %d to %d x %d x %d\n",
      name, 1e3 * seconds, calls, 100 * seconds / pass_seconds_, bytes / 1e6, flops / seconds / 1e12,
      bytes / seconds / 1e9, 100 * roofline / seconds, 100 * least->part, least->from.height,
      least->from.width, least->from.channels, least->to.height, least->to.width, least->to.channels);
}

void Operations::time_products() {
  const auto call = [this](const Layer& layer, double weight_bytes, std::function<void()> work) {
    const auto weights = static_cast<double>(network_.table.tensors[layer.weight].count);
    return Call{2 * static_cast<double>(batch_) * static_cast<double>(layer.out.pixels()) * weights,
                2 * (elements(input(layer)) + elements(layer.out)) + weight_bytes * weights, std::move(work)};
  };
  time("convolution by cuDNN", [&](const Layer& layer) -> std::optional<Call> {
    if (!layer.is_product()) return std::nullopt;
    return call(layer, 2, [this, &layer] {
      images_.convolve(network_.convolution(layer, batch_), b_.x.data(), b_.weight.data(),
                       layer.bias == Layer::no_tensor ? nullptr : b_.weight.data(), b_.out.data());
    });
  });
  time("gradient of its images by cuDNN", [&](const Layer& layer) -> std::optional<Call> {
    if (!layer.is_product() || layer.input == 0) return std::nullopt;
    return call(layer, 2, [this, &layer] {
      images_.convolve_backward_images(network_.convolution(layer, batch_), b_.d_out.data(), b_.weight.data(),
                                       b_.d_x.data());
    });
  });
  time("gradient of its weights by cuDNN", [&](const Layer& layer) -> std::optional<Call> {
    if (!layer.is_product()) return std::nullopt;
    return call(layer, 4, [this, &layer] {
      images_.convolve_backward_weight(network_.convolution(layer, batch_), b_.x.data(), b_.d_out.data(),
                                       b_.d_weight.data(),
                                       layer.bias == Layer::no_tensor ? nullptr : b_.bias.data());
    });
  });
}

// The statistics need all of x before its first element can be normalized, so x is read twice.
void Operations::time_norm(const char* forward, const char* backward,
                           const compute::BatchNorm<bfloat16>::AllReduce* all_reduce) {
  time(forward, [&](const Layer& layer) -> std::optional<Call> {
    if (layer.kind != LayerKind::batch_norm) return std::nullopt;
    auto norm = batch_norm(layer);
    norm.all_reduce = all_reduce;
    return Call{0, 6 * elements(layer.out),
                [this, norm] { images_.normalize(norm, b_.batch_mean.data(), b_.batch_variance.data(), 1); }};
  });
  time(backward, [&](const Layer& layer) -> std::optional<Call> {
    if (layer.kind != LayerKind::batch_norm) return std::nullopt;
    auto norm = batch_norm(layer);
    norm.all_reduce = all_reduce;
    return Call{0, 10 * elements(layer.out), [this, norm] {
                  images_.normalize_backward(norm, b_.d_out.data(), nullptr, b_.d_x.data(),
                                             b_.batch_mean.data(), b_.batch_variance.data());
                }};
  });
}

void Operations::time_norms() {
  time_norm("batch norm by cuDNN", "batch norm backward by cuDNN", nullptr);
  const compute::BatchNorm<bfloat16>::AllReduce alone = [](std::span<double>) {};
  time_norm("batch norm of --sync-batch-norm", "the same backward", &alone);
}

void Operations::time_activations() {
  const auto relu = [&](bool backward, bool drops) {
    return [this, backward, drops](const Layer& layer) -> std::optional<Call> {
      const bool has_relu = layer.kind == LayerKind::batch_norm ? layer.relu : layer.kind == LayerKind::relu;
      if (!has_relu || drops != (layer.dropout >= 0)) return std::nullopt;
      const bfloat16* const factor = drops ? b_.factor.data() : nullptr;
      const std::size_t pixels = layer.out.pixels();
      const int channels = layer.out.channels;
      const double factors = drops ? 2.0 * batch_ * channels : 0;
      if (backward)
        return Call{0, 6 * elements(layer.out) + factors, [this, pixels, channels, factor] {
                      images_.relu_backward(batch_, pixels, channels, b_.out.data(), factor, b_.d_out.data(),
                                            b_.d_x.data());
                    }};
      return Call{0, 4 * elements(layer.out) + factors, [this, pixels, channels, factor] {
                    images_.relu(batch_, pixels, channels, b_.x.data(), factor, b_.out.data());
                  }};
    };
  };
  time("ReLU", relu(false, false));
  time("ReLU backward", relu(true, false));
  time("dropout and ReLU", relu(false, true));
  time("dropout and ReLU backward", relu(true, true));
  time("sum of a block's branches", [this](const Layer& layer) -> std::optional<Call> {
    if (!layer.addend) return std::nullopt;
    const std::size_t count = static_cast<std::size_t>(batch_) * layer.out.elements();
    return Call{0, 6 * elements(layer.out),
                [this, count] { images_.add(b_.x.data(), b_.out.data(), count); }};
  });
}

void Operations::time_pools() {
  using Run = std::function<void(const models::ImageSize& in, const Layer& layer)>;
  // An operation's bytes for each element of its input and of its output.
  const auto kind = [this](LayerKind wanted, double in_bytes, double out_bytes, Run run) {
    return [=, this](const Layer& layer) -> std::optional<Call> {
      if (layer.kind != wanted) return std::nullopt;
      return Call{0, in_bytes * elements(input(layer)) + out_bytes * elements(layer.out),
                  [this, run, &layer] { run(input(layer), layer); }};
    };
  };
  bfloat16 *const x = b_.x.data(), *const out = b_.out.data(), *const d_out = b_.d_out.data(),
                  *const d_x = b_.d_x.data();
  std::uint8_t* const places = b_.places.data();
  time("max pool", kind(LayerKind::max_pool, 2, 3, [=, this](const auto&, const Layer& layer) {
         images_.max_pool(network_.pool(layer, batch_), x, out, places);
       }));
  time("max pool backward", kind(LayerKind::max_pool, 2, 3, [=, this](const auto&, const Layer& layer) {
         images_.max_pool_backward(network_.pool(layer, batch_), places, d_out, d_x);
       }));
  time("mean pool", kind(LayerKind::mean_pool, 2, 2, [=, this](const auto& in, const Layer&) {
         images_.mean_pool(batch_, in.pixels(), in.channels, x, out);
       }));
  time("mean pool backward", kind(LayerKind::mean_pool, 2, 2, [=, this](const auto& in, const Layer&) {
         images_.mean_pool_backward(batch_, in.pixels(), in.channels, d_out, d_x);
       }));
  time("flatten", kind(LayerKind::flatten, 2, 2, [=, this](const auto& in, const Layer&) {
         images_.flatten(batch_, in.pixels(), in.channels, x, false, out);
       }));
  // A quarter of the input's pixels is read, and backward the channels that it has.
  time("shortcut", kind(LayerKind::shortcut, 0.5, 2, [=, this](const auto& in, const Layer& layer) {
         images_.shortcut(batch_, in.height, in.width, in.channels, layer.out.channels, x, out);
       }));
  time("shortcut backward", kind(LayerKind::shortcut, 2.5, 0, [=, this](const auto& in, const Layer& layer) {
         images_.shortcut_backward(batch_, in.height, in.width, in.channels, layer.out.channels, d_out, d_x);
       }));
}

void Operations::time_end() {
  const int classes = network_.classes();
  const auto labels = random_labels(batch_, classes);
  const auto logits = [&](double bytes, std::function<void()> work) {
    return [=, this](const Layer& layer) -> std::optional<Call> {
      if (&layer != &network_.layers.back()) return std::nullopt;
      return Call{0, bytes * elements(layer.out), work};
    };
  };
  time("classifier", logits(4, [&] {
         images_.compute_cross_entropy(b_.out.data(), labels.data(), batch_, classes, 1e-5f);
       }));
  time("right answers, read by the host",
       logits(2, [&] { images_.count_correct(b_.out.data(), labels.data(), batch_, classes); }));
}

/// Of a forward and a backward pass.
double measure_pass(const ImageNetwork& network, int batch, CudaCompute& on) {
  models::ConvNet<bfloat16> net(network, batch, on);
  net.tensors().initialize(1);
  net.tensors().round_parameters(on);
  Arena<bfloat16> images(static_cast<std::size_t>(batch) * network.images().elements(), on.gpu());
  fill(images, images.size(), 1, on);
  const auto labels = random_labels(batch, network.classes());
  return measure_seconds(on, 2 * runs, [&] {
    net.gradients(images.data(), labels.data(), batch, {}, 1.0f / static_cast<float>(batch),
                  [](std::size_t) {});
  });
}

void bench(const std::string& name, int batch) {
  if (batch < 1) throw Error(ErrorCode::usage, "the batch is at least 1");
  const ImageNetwork network = find_network(name);
  CudaCompute on({});
  on.images();  // named by describe()
  double peak = measure_peak_flops(on);
  const double seconds = measure_pass(network, batch, on);
  peak = std::max(peak, measure_peak_flops(on));
  const double rate = batch / seconds;
  std::printf(
      "%s on %s\n%d images of %d x %d: %.2f ms forward and backward, %.0f images/s, MFU %.1f%% of %.0f "
      "TFLOP/s measured\n",
      name.c_str(), on.describe().c_str(), batch, network.images().height, network.images().width,
      1e3 * seconds, rate, 100 * rate * network.flops_per_image() / peak, peak / 1e12);
  const Peaks peaks{peak, name == "tiny" ? measure_bandwidth(on, 1 << 20) : measure_bandwidth(on)};
  std::printf("  peaks, measured: %.0f TFLOP/s, %.0f GB/s read and written in a copy\n", peaks.flops / 1e12,
              peaks.bandwidth / 1e9);
  Operations operations(network, batch, on, seconds, peaks);
  operations.time_products();
  operations.time_norms();
  operations.time_activations();
  operations.time_pools();
  operations.time_end();
}

}  // namespace

int main(int argc, char** argv) {
  try {
    std::setvbuf(stdout, nullptr, _IOLBF, 0);  // a benchmark that is killed leaves what it has measured
    bench(argc > 1 ? argv[1] : "resnet50", argc > 2 ? std::atoi(argv[2]) : 64);
  } catch (const Error& error) {
    std::printf("%s\n", error.what());
    return error.code() == ErrorCode::device && argc < 2 ? 77 : error.exit_code();
  }
}
