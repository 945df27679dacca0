// SPDX-License-Identifier: Apache-2.0
#include "strategies/pipeline/layer_times.hpp"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <limits>
#include <span>

#include "muster/philox.hpp"
#include "strategies/data_parallel/replica.hpp"

namespace muster::pipeline {
namespace {

/// At least so many passes, after one in which libraries build what they cache.
constexpr int min_passes = 3;
constexpr double total_seconds = 0.2;

/// One layer of a model as a stage of its own.
template <typename Real>
class TimedLayer {
 public:
  TimedLayer(const Workload& workload, const models::LayerRange& layers, const MeasuredLayers& measured,
             compute::Compute<Real>& compute)
      : compute_(compute),
        has_input_(layers.first > 0),
        has_output_(layers.last < workload.layers()),
        model_(workload.build_stage(compute, {layers, 1, 0, measured.samples, Replica::extra_scalars})) {
    model_->tensors().initialize(measured.seed);
    model_->tensors().round_parameters(compute);
    model_->load_samples(0, 0, measured.samples);
    // Random values, as in training: a GPU's clock depends on them.
    const std::size_t exchanged =
        std::max(has_input_ ? model_->input(0).size() : 0, has_output_ ? model_->output(0).size() : 0);
    for (std::size_t i = 0; i < exchanged / sizeof(Real); ++i)
      values_.push_back(Real(static_cast<float>(normal(measured.seed, 0, i))));
  }

  double shortest_pass() {
    pass();
    double shortest = std::numeric_limits<double>::infinity(), all = 0;
    for (int passes = 0; passes < min_passes || all < total_seconds; ++passes) {
      const double seconds = pass();
      shortest = std::min(shortest, seconds);
      all += seconds;
    }
    return shortest;
  }

 private:
  double pass() {
    if (has_input_) fill(model_->input(0));
    if (has_output_)
      for (const auto& part : model_->output_gradient(0)) fill(part);
    constexpr float scale = 1.0f / static_cast<float>(1 << 10);
    const auto from = std::chrono::steady_clock::now();
    model_->forward(0, scale);
    model_->backward(0, scale, [](std::size_t) {});
    compute_.wait();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - from).count();
  }
  void fill(std::span<std::byte> exchanged) {
    compute_.memory().copy_in(exchanged.data(), values_.data(), exchanged.size());
  }

  compute::Compute<Real>& compute_;
  bool has_input_, has_output_;
  std::unique_ptr<StageModel> model_;
  std::vector<Real> values_;  ///< of the activations and gradients that other stages would send
};

}  // namespace

double stage_seconds(const LayerTimes& times, const models::LayerRange& layers,
                     const std::vector<int>& kinds) {
  double seconds = 0;
  for (int layer = layers.first; layer < layers.last; ++layer)
    seconds += times[static_cast<std::size_t>(kinds[static_cast<std::size_t>(layer)])];
  return seconds;
}

template <typename Real>
LayerTimes measure_layers(const Workload& workload, const MeasuredLayers& measured,
                          compute::Compute<Real>& compute) {
  const std::vector<int> kinds = workload.layer_kinds();
  LayerTimes times(static_cast<std::size_t>(*std::max_element(kinds.begin(), kinds.end())) + 1);
  const int layers = workload.layers();
  for (int layer = 0; layer < layers; ++layer) {
    double& seconds = times[static_cast<std::size_t>(kinds[static_cast<std::size_t>(layer)])];
    if (seconds > 0 || (layer == 0 && !measured.first) || (layer + 1 == layers && !measured.last)) continue;
    seconds = TimedLayer<Real>(workload, {layer, layer + 1}, measured, compute).shortest_pass();
  }
  return times;
}

template LayerTimes measure_layers(const Workload&, const MeasuredLayers&, compute::Compute<float>&);
template LayerTimes measure_layers(const Workload&, const MeasuredLayers&, compute::Compute<bfloat16>&);

std::vector<LayerTimes> gather_layer_times(const LayerTimes& own, int place, int places,
                                           Communicator& world) {
  std::vector<double> all(own.size() * static_cast<std::size_t>(places));
  const auto of_place = [&](int number) {
    return std::span(all).subspan(static_cast<std::size_t>(number) * own.size(), own.size());
  };
  std::copy(own.begin(), own.end(), of_place(place).begin());
  world.all_reduce(std::span(all), Reduction::max);
  std::vector<LayerTimes> times;
  for (int number = 0; number < places; ++number)
    times.emplace_back(of_place(number).begin(), of_place(number).end());
  return times;
}

}  // namespace muster::pipeline
