// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <vector>

#include "models/image_network.hpp"
#include "models/network_stage.hpp"
#include "muster/sampler.hpp"
#include "training/image_data.hpp"
#include "training/workload.hpp"

namespace muster {

/// An ImageNetwork on labelled images. Each epoch uses every image once, in the order of a Permutation. The
/// sample's number decides how the image is cropped and mirrored, and which channels dropout zeroes.
class NetworkWorkload final : public Workload {
 public:
  struct Settings {
    std::string name;     ///< of the network
    double width = 1;     ///< MobileNet's multiplier
    int image_size = 0;   ///< pixels in each direction; 0: those of the data
    bool augment = true;  ///< crop and mirror the images to train on
    std::uint64_t seed = 0;
  };
  NetworkWorkload(std::unique_ptr<const ImageData> data, const Settings& settings);

  std::string model_text() const override { return network_.text; }
  std::string model_line() const override;
  std::string data_line() const override;
  const char* unit() const noexcept override { return "image"; }
  std::int64_t predictions_per_sample() const noexcept override { return 1; }
  double flops_per_sample() const override { return network_.flops_per_image(); }
  std::uint64_t samples_per_epoch() const noexcept override { return order_.count(); }
  std::uint64_t held_out() const noexcept override { return data_->held_out(); }
  std::uint64_t data_hash() const noexcept override { return data_->fingerprint(); }
  /// The image of a sample.
  std::uint64_t image_index(std::uint64_t sample) const noexcept { return image_of(order_, sample); }
  models::TensorTable table() const override { return network_.table; }
  MemorySegments memory(std::uint64_t max_samples, std::size_t extra, std::size_t real_bytes) const override;
  std::unique_ptr<Model> build(compute::Compute<float>& compute, std::uint64_t max_samples,
                               std::size_t extra) const override;
  std::unique_ptr<Model> build(compute::Compute<bfloat16>& compute, std::uint64_t max_samples,
                               std::size_t extra) const override;

  /// Its blocks, behind each of which it can be cut.
  int layers() const noexcept override { return static_cast<int>(block_ends_.size()); }
  const char* layer_name() const noexcept override { return "block"; }
  std::vector<int> layer_kinds() const override { return block_kinds_; }
  StageTable stage_table(const models::LayerRange& layers) const override;
  double stage_flops(const models::LayerRange& layers) const override;
  MemorySegments stage_memory(const StageSettings& settings, std::size_t real_bytes) const override;
  std::unique_ptr<StageModel> build_stage(compute::Compute<float>& compute,
                                          const StageSettings& settings) const override;
  std::unique_ptr<StageModel> build_stage(compute::Compute<bfloat16>& compute,
                                          const StageSettings& settings) const override;
  models::NetworkStage take_stage(const models::LayerRange& layers) const {
    return take_blocks(network_, block_ends_, layers);
  }

  /// `threads`: of this process that share the work of loading. The workload must outlive the loader.
  template <typename Real>
  std::unique_ptr<ImageLoader<Real>> make_loader(int threads) const {
    return data_->make_loader({settings_.seed, settings_.augment, network_.images().width, threads}, order_,
                              Real());
  }
  const Settings& settings() const noexcept { return settings_; }
  const models::ImageNetwork& network() const noexcept { return network_; }

 private:
  std::unique_ptr<const ImageData> data_;
  Settings settings_;
  models::ImageNetwork network_;
  std::vector<std::size_t> block_ends_;
  std::vector<int> block_kinds_;
  Permutation order_;
};

}  // namespace muster
