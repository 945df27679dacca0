// SPDX-License-Identifier: Apache-2.0
#include "training/network_workload.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "models/conv_net.hpp"
#include "models/model_memory.hpp"
#include "models/named_network.hpp"
#include "training/input_layout.hpp"
#include "training/network_sample.hpp"
#include "training/network_stage_model.hpp"

namespace muster {
namespace {

template <typename Real>
class NetworkModel final : public Model {
 public:
  NetworkModel(const NetworkWorkload& workload, compute::Compute<Real>& compute, std::uint64_t max_samples,
               std::size_t extra)
      : workload_(workload),
        net_(workload.network(), static_cast<int>(std::max(max_samples, least_validation_batch)), compute,
             extra),
        images_(*compute.images()),
        loader_(workload.make_loader<Real>(compute.threads())),
        layout_(workload.network().dropout, workload.network().images().elements(),
                static_cast<std::size_t>(net_.max_batch()), sizeof(Real)),
        inputs_(layout_.size),
        labels_(static_cast<std::size_t>(net_.max_batch())) {}

  models::ModelTensors<float>& tensors() noexcept override { return net_.tensors(); }
  std::size_t bytes() const noexcept override {
    return net_.bytes() + inputs_.size() * sizeof(Real) + labels_.size() * sizeof(compute::Token);
  }

  void prefetch(std::span<const Share> samples) override { loader_->prefetch(samples); }
  std::vector<std::string> left_out() const override { return loader_->left_out(); }

  void load_samples(std::uint64_t first, std::uint64_t count) override {
    count_ = count;
    const std::uint64_t seed = workload_.settings().seed;
    loader_->load(first, count, pixels(), labels_.data());
    for (std::uint64_t i = 0; i < count; ++i) {
      for (std::size_t layer = 0; layer < layout_.factors.size(); ++layer) {
        const int channels = workload_.network().dropout[layer];
        draw_dropout(seed, layer, first + i, channels,
                     &inputs_[layout_.factors[layer] + i * static_cast<std::uint64_t>(channels)]);
      }
    }
  }

  void gradients(float gradient_scale, const Ready& ready) override {
    const Real* const inputs = send_inputs(count_);
    typename models::ConvNet<Real>::Dropout dropout;
    for (const std::size_t factors : layout_.factors) dropout.push_back(inputs + factors);
    net_.gradients(inputs + layout_.pixels, labels_.data(), static_cast<int>(count_), dropout, gradient_scale,
                   ready);
  }

  void synchronize_batch_norm(const AllReduce& all_reduce) override {
    net_.synchronize_batch_norm(all_reduce);
  }

  Validation validate_share(int rank, int ranks, bool fixed, const ShouldStop& should_stop) override {
    Validation found;
    const auto max_batch = static_cast<std::uint64_t>(net_.max_batch());
    const Share share = share_held_out(workload_.held_out(), fixed ? max_batch : 1, rank, ranks);
    for (std::uint64_t at = share.begin; at < share.end && !should_stop();) {
      const std::uint64_t batch = std::min(max_batch, share.end - at);
      const std::uint64_t loaded = loader_->load_held_out(at, batch, pixels(), labels_.data());
      at += batch;
      if (loaded == 0) continue;
      const auto result =
          net_.loss(send_inputs(loaded) + layout_.pixels, labels_.data(), static_cast<int>(loaded));
      found.loss.sum += round_for_exact_sum(result.loss);
      found.accuracy.sum += static_cast<double>(result.right);
      found.loss.weight += static_cast<double>(loaded);
    }
    found.accuracy.weight = found.loss.weight;
    return found;
  }

 private:
  Real* pixels() { return inputs_.data() + layout_.pixels; }
  /// The factors and the pixels of so many images on the device.
  const Real* send_inputs(std::uint64_t images) {
    return images_.send(inputs_.data(), layout_.pixels + images * workload_.network().images().elements(),
                        inputs_.size());
  }

  const NetworkWorkload& workload_;
  std::uint64_t count_ = 0;
  models::ConvNet<Real> net_;
  compute::ImageCompute<Real>& images_;
  std::unique_ptr<ImageLoader<Real>> loader_;
  InputLayout layout_;
  std::vector<Real> inputs_;
  std::vector<compute::Token> labels_;
};

models::ImageNetwork build_network(const ImageData& data, const NetworkWorkload::Settings& settings) {
  const int side = settings.image_size > 0 ? settings.image_size : data.side();
  return models::named_network(settings.name, settings.width, data.classes(), {side, side, data.channels()});
}

/// All that the cost of a block depends on.
std::string describe_block(const models::NetworkStage& block) {
  std::string text = fmt::format("{}/{}", block.is_first, block.output_uses);
  for (const models::Layer& layer : block.network.layers) {
    text +=
        fmt::format("/{} {} {} {} {} {} {} {} {} {}x{}x{}", static_cast<int>(layer.kind), layer.input,
                    layer.addend.value_or(layer.input), layer.relu, layer.dropout, layer.window, layer.stride,
                    layer.padding, layer.groups, layer.out.height, layer.out.width, layer.out.channels);
  }
  return text;
}

}  // namespace

NetworkWorkload::NetworkWorkload(std::unique_ptr<const ImageData> data, const Settings& settings)
    : data_(std::move(data)),
      settings_(settings),
      network_(build_network(*data_, settings)),
      block_ends_(models::block_ends(network_)),
      order_(data_->count(), settings.seed) {
  std::map<std::string, int> known;
  for (int block = 0; block < layers(); ++block) {
    const std::string text = describe_block(take_stage({block, block + 1}));
    block_kinds_.push_back(known.try_emplace(text, static_cast<int>(known.size())).first->second);
  }
}

std::string NetworkWorkload::model_line() const {
  const models::ImageSize& images = network_.images();
  return fmt::format("{}: images of {} x {}, {} classes", settings_.name, images.height, images.width,
                     network_.classes());
}

std::string NetworkWorkload::data_line() const {
  return fmt::format("{} images to train on{}, {} held out", data_->count(),
                     settings_.augment ? fmt::format(", {}", data_->augmentation()) : "", held_out());
}

MemorySegments NetworkWorkload::memory(std::uint64_t max_samples, std::size_t extra,
                                       std::size_t real_bytes) const {
  const std::uint64_t max_batch = std::max(max_samples, least_validation_batch);
  MemorySegments segments = models::conv_net_memory(network_, max_batch, real_bytes, extra);
  const InputLayout inputs(network_.dropout, network_.images().elements(), max_batch, real_bytes);
  segments.push_back({"samples", inputs.size * real_bytes + max_batch * sizeof(compute::Token)});
  return segments;
}

std::unique_ptr<Model> NetworkWorkload::build(compute::Compute<float>& compute, std::uint64_t max_samples,
                                              std::size_t extra) const {
  return std::make_unique<NetworkModel<float>>(*this, compute, max_samples, extra);
}

std::unique_ptr<Model> NetworkWorkload::build(compute::Compute<bfloat16>& compute, std::uint64_t max_samples,
                                              std::size_t extra) const {
  return std::make_unique<NetworkModel<bfloat16>>(*this, compute, max_samples, extra);
}

StageTable NetworkWorkload::stage_table(const models::LayerRange& layers) const {
  models::NetworkStage stage = take_stage(layers);
  return {std::move(stage.network.table), stage.first_tensor, false, stage.first_statistic};
}

double NetworkWorkload::stage_flops(const models::LayerRange& layers) const {
  const auto end_of = [&](int block) { return block_ends_[static_cast<std::size_t>(block)] + 1; };
  return network_.flops_per_image(layers.first == 0 ? 0 : end_of(layers.first - 1), end_of(layers.last - 1));
}

MemorySegments NetworkWorkload::stage_memory(const StageSettings& settings, std::size_t real_bytes) const {
  return network_stage_memory(*this, settings, real_bytes);
}

std::unique_ptr<StageModel> NetworkWorkload::build_stage(compute::Compute<float>& compute,
                                                         const StageSettings& settings) const {
  return build_network_stage(*this, compute, settings);
}

std::unique_ptr<StageModel> NetworkWorkload::build_stage(compute::Compute<bfloat16>& compute,
                                                         const StageSettings& settings) const {
  return build_network_stage(*this, compute, settings);
}

}  // namespace muster
