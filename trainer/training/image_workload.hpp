// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "data/idx.hpp"
#include "models/mnist_cnn.hpp"
#include "muster/sampler.hpp"
#include "training/workload.hpp"

namespace muster {

/// MnistCnn on MNIST's files. Each epoch uses every image once, in the order of a Permutation. The sample's
/// number decides which units dropout zeroes.
class ImageWorkload final : public Workload {
 public:
  ImageWorkload(data::ImageSet images, std::uint64_t seed);

  std::string model_text() const override { return "mnist-cnn"; }
  std::string model_line() const override;
  std::string data_line() const override;
  const char* unit() const noexcept override { return "image"; }
  std::int64_t predictions_per_sample() const noexcept override { return 1; }
  double flops_per_sample() const override;
  std::uint64_t samples_per_epoch() const noexcept override { return order_.count(); }
  std::uint64_t held_out() const noexcept override { return images_.held_out.count(); }
  std::uint64_t data_hash() const noexcept override {
    return images_.held_out.fingerprint(images_.training.fingerprint(0));
  }
  /// The image of a sample.
  std::uint64_t image_index(std::uint64_t sample) const noexcept {
    return order_.at(sample / order_.count(), sample % order_.count());
  }
  models::TensorTable table() const override { return models::mnist_cnn_tensors(); }
  MemorySegments memory(std::uint64_t max_samples, std::size_t extra, std::size_t real_bytes) const override;
  std::unique_ptr<Model> build(compute::Compute<float>& compute, std::uint64_t max_samples,
                               std::size_t extra) const override;
  std::unique_ptr<Model> build(compute::Compute<bfloat16>& compute, std::uint64_t max_samples,
                               std::size_t extra) const override;

 private:
  data::ImageSet images_;
  std::uint64_t seed_;
  Permutation order_;
};

}  // namespace muster
