// SPDX-License-Identifier: Apache-2.0
#include "training/network_workload.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "models/conv_net.hpp"
#include "models/model_memory.hpp"
#include "models/named_network.hpp"
#include "muster/philox.hpp"

namespace muster {
namespace {

/// Smallest validation batch; validation uses the training batch when that is larger.
constexpr std::uint64_t least_validation_batch = 32;

/// First stream of the seed's generator, one for each dropout of the network. SampleWindows uses another one,
/// and initial weights use small numbers (one per tensor).
constexpr std::uint64_t dropout_stream = std::uint64_t{1} << 61;

/// Each of `count` channels is kept, and doubled, with probability 1/2.
template <typename Real>
void draw_dropout(std::uint64_t seed, std::uint64_t stream, std::uint64_t sample, int count, Real* to) {
  const std::uint64_t bits = uniform_bits(seed, stream, sample);
  for (int channel = 0; channel < count; ++channel)
    to[channel] = Real((bits >> channel & 1) != 0 ? 2.0f : 0.0f);
}

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
        labels_(static_cast<std::size_t>(net_.max_batch())) {
    const auto max_batch = static_cast<std::size_t>(net_.max_batch());
    for (const int channels : workload.network().dropout) {
      dropout_.push_back(pixels_);
      pixels_ += compute::aligned_count<Real>(max_batch * static_cast<std::size_t>(channels));
    }
    inputs_.resize(pixels_ + max_batch * workload.network().images().elements());
  }

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
      for (std::size_t layer = 0; layer < dropout_.size(); ++layer) {
        const int channels = workload_.network().dropout[layer];
        draw_dropout(seed, dropout_stream + layer, first + i, channels,
                     &inputs_[dropout_[layer] + i * static_cast<std::uint64_t>(channels)]);
      }
    }
  }

  void gradients(float gradient_scale, const Ready& ready) override {
    const Real* const inputs = send_inputs(count_);
    typename models::ConvNet<Real>::Dropout dropout;
    for (const std::size_t factors : dropout_) dropout.push_back(inputs + factors);
    net_.gradients(inputs + pixels_, labels_.data(), static_cast<int>(count_), dropout, gradient_scale,
                   ready);
  }

  void synchronize_batch_norm(const AllReduce& all_reduce) override {
    net_.synchronize_batch_norm(all_reduce);
  }

  Validation validate_share(int rank, int ranks, bool fixed, const ShouldStop& should_stop) override {
    Validation found;
    const auto max_batch = static_cast<std::uint64_t>(net_.max_batch());
    const std::uint64_t count = workload_.held_out(), group = fixed ? max_batch : 1;
    const Share groups = share_of((count + group - 1) / group, rank, ranks);
    const std::uint64_t begin = groups.begin * group, end = std::min(groups.end * group, count);
    for (std::uint64_t at = begin; at < end && !should_stop();) {
      const std::uint64_t batch = std::min(max_batch, end - at);
      const std::uint64_t loaded = loader_->load_held_out(at, batch, pixels(), labels_.data());
      at += batch;
      if (loaded == 0) continue;
      const auto result = net_.loss(send_inputs(loaded) + pixels_, labels_.data(), static_cast<int>(loaded));
      found.loss.sum += round_for_exact_sum(result.loss);
      found.accuracy.sum += static_cast<double>(result.right);
      found.loss.weight += static_cast<double>(loaded);
    }
    found.accuracy.weight = found.loss.weight;
    return found;
  }

 private:
  Real* pixels() { return inputs_.data() + pixels_; }
  /// The factors and the pixels of so many images on the device.
  const Real* send_inputs(std::uint64_t images) {
    return images_.send(inputs_.data(), pixels_ + images * workload_.network().images().elements(),
                        inputs_.size());
  }

  const NetworkWorkload& workload_;
  std::uint64_t count_ = 0;
  models::ConvNet<Real> net_;
  compute::ImageCompute<Real>& images_;
  std::unique_ptr<ImageLoader<Real>> loader_;
  /// Places in inputs_ of the factors of each dropout of the network, and of the pixels behind them.
  std::vector<std::size_t> dropout_;
  std::size_t pixels_ = 0;
  std::vector<Real> inputs_;
  std::vector<compute::Token> labels_;
};

models::ImageNetwork build_network(const ImageData& data, const NetworkWorkload::Settings& settings) {
  const int side = settings.image_size > 0 ? settings.image_size : data.side();
  return models::named_network(settings.name, settings.width, data.classes(), {side, side, data.channels()});
}

}  // namespace

NetworkWorkload::NetworkWorkload(std::unique_ptr<const ImageData> data, const Settings& settings)
    : data_(std::move(data)),
      settings_(settings),
      network_(build_network(*data_, settings)),
      order_(data_->count(), settings.seed) {}

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
  constexpr std::uint64_t line = compute::arena_alignment;
  std::uint64_t bytes = max_batch * (network_.images().elements() * real_bytes + sizeof(compute::Token));
  for (const int channels : network_.dropout)
    bytes += (max_batch * static_cast<std::uint64_t>(channels) * real_bytes + line - 1) / line * line;
  segments.push_back({"samples", bytes});
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

}  // namespace muster
