// SPDX-License-Identifier: Apache-2.0
#include "training/image_workload.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "models/model_memory.hpp"
#include "muster/philox.hpp"

namespace muster {
namespace {

/// Streams of the seed's generator. SampleWindows uses another one, and initial weights use small numbers
/// (one per tensor).
constexpr std::uint64_t channel_stream = std::uint64_t{1} << 61, hidden_stream = channel_stream + 1;

/// Mean and standard deviation of MNIST's training pixels, as in Horovod's example.
constexpr float pixel_mean = 0.1307f, pixel_deviation = 0.3081f;

/// Each of `count` units is kept, and doubled, with probability 1/2.
template <typename Real>
void draw_dropout(std::uint64_t seed, std::uint64_t stream, std::uint64_t sample, int count, Real* to) {
  const std::uint64_t bits = uniform_bits(seed, stream, sample);
  for (int unit = 0; unit < count; ++unit) to[unit] = Real((bits >> unit & 1) != 0 ? 2.0f : 0.0f);
}

/// Smallest validation batch; validation uses the training batch when that is larger.
constexpr std::uint64_t least_validation_batch = 32;

template <typename Real>
class ImageModel final : public Model {
  using Cnn = models::MnistCnn<Real>;
  static_assert(Cnn::dropped_channels <= 64 && Cnn::hidden <= 64);

 public:
  ImageModel(const ImageWorkload& workload, const data::ImageSet& images, std::uint64_t seed,
             compute::Compute<Real>& compute, std::uint64_t max_samples, std::size_t extra)
      : workload_(workload),
        images_(images),
        seed_(seed),
        cnn_(static_cast<int>(std::max(max_samples, least_validation_batch)), compute, extra),
        pixels_(max_batch() * Cnn::pixels),
        channels_(max_batch() * Cnn::dropped_channels),
        hidden_(max_batch() * Cnn::hidden),
        labels_(max_batch()) {}

  models::ModelTensors<float>& tensors() noexcept override { return cnn_.tensors(); }
  std::size_t bytes() const noexcept override {
    return cnn_.bytes() + (pixels_.size() + channels_.size() + hidden_.size()) * sizeof(Real) +
           labels_.size() * sizeof(compute::Token);
  }

  void load_samples(std::uint64_t first, std::uint64_t count) override {
    count_ = count;
    for (std::uint64_t i = 0; i < count; ++i) {
      load(images_.training, workload_.image_index(first + i), i);
      draw_dropout(seed_, channel_stream, first + i, Cnn::dropped_channels,
                   channels_.data() + i * Cnn::dropped_channels);
      draw_dropout(seed_, hidden_stream, first + i, Cnn::hidden, hidden_.data() + i * Cnn::hidden);
    }
  }

  void gradients(float gradient_scale, const Ready& ready) override {
    cnn_.loss_and_gradients(pixels_.data(), labels_.data(), static_cast<int>(count_),
                            {channels_.data(), hidden_.data()}, gradient_scale, ready);
  }

  Validation validate_share(int rank, int ranks, bool fixed, const ShouldStop& should_stop) override {
    Validation found;
    const std::uint64_t count = images_.held_out.count(), group = fixed ? max_batch() : 1;
    const Share groups = share_of((count + group - 1) / group, rank, ranks);
    const std::uint64_t begin = groups.begin * group, end = std::min(groups.end * group, count);
    for (std::uint64_t at = begin; at < end && !should_stop();) {
      const std::uint64_t batch = std::min<std::uint64_t>(max_batch(), end - at);
      for (std::uint64_t i = 0; i < batch; ++i) load(images_.held_out, at + i, i);
      const auto result = cnn_.loss(pixels_.data(), labels_.data(), static_cast<int>(batch));
      found.loss.sum += round_for_exact_sum(result.loss);
      found.accuracy.sum += static_cast<double>(result.right);
      at += batch;
    }
    found.loss.weight = found.accuracy.weight = static_cast<double>(std::max(begin, end) - begin);
    return found;
  }

 private:
  std::size_t max_batch() const { return static_cast<std::size_t>(cnn_.max_batch()); }
  void load(const data::LabelledImages& images, std::uint64_t image, std::uint64_t to) {
    labels_[to] = images.label(image);
    std::transform(images.pixels(image).begin(), images.pixels(image).end(),
                   pixels_.data() + to * Cnn::pixels,
                   [](std::uint8_t pixel) { return Real((pixel / 255.0f - pixel_mean) / pixel_deviation); });
  }

  const ImageWorkload& workload_;
  const data::ImageSet& images_;
  std::uint64_t seed_, count_ = 0;
  Cnn cnn_;
  std::vector<Real> pixels_, channels_, hidden_;
  std::vector<compute::Token> labels_;
};

}  // namespace

ImageWorkload::ImageWorkload(data::ImageSet images, std::uint64_t seed)
    : images_(std::move(images)), seed_(seed), order_(images_.training.count(), seed) {}

std::string ImageWorkload::model_line() const { return "mnist-cnn: 2 convolutions, 2 linear layers"; }

std::string ImageWorkload::data_line() const {
  return fmt::format("{} images to train on, {} held out", images_.training.count(),
                     images_.held_out.count());
}

double ImageWorkload::flops_per_sample() const { return models::mnist_cnn_flops_per_image(); }

MemorySegments ImageWorkload::memory(std::uint64_t max_samples, std::size_t extra,
                                     std::size_t real_bytes) const {
  using Cnn = models::MnistCnn<float>;
  const std::uint64_t max_batch = std::max(max_samples, least_validation_batch);
  MemorySegments segments = models::mnist_cnn_memory(max_batch, real_bytes, extra);
  constexpr std::uint64_t reals = Cnn::pixels + Cnn::dropped_channels + Cnn::hidden;
  segments.push_back({"samples", max_batch * (reals * real_bytes + sizeof(compute::Token))});
  return segments;
}

std::unique_ptr<Model> ImageWorkload::build(compute::Compute<float>& compute, std::uint64_t max_samples,
                                            std::size_t extra) const {
  return std::make_unique<ImageModel<float>>(*this, images_, seed_, compute, max_samples, extra);
}

std::unique_ptr<Model> ImageWorkload::build(compute::Compute<bfloat16>& compute, std::uint64_t max_samples,
                                            std::size_t extra) const {
  return std::make_unique<ImageModel<bfloat16>>(*this, images_, seed_, compute, max_samples, extra);
}

}  // namespace muster
