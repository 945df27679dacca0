// SPDX-License-Identifier: Apache-2.0
#include "training/workload.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "data/cifar.hpp"
#include "data/idx.hpp"
#include "models/named_network.hpp"
#include "muster/error.hpp"
#include "training/network_workload.hpp"
#include "training/picture_data.hpp"
#include "training/plane_data.hpp"
#include "training/token_workload.hpp"

namespace muster {

namespace {

/// CIFAR's files have a part to validate with, and their images have one form.
void refuse_picture_settings(const Options& options) {
  for (const char* name : {"validation-data", "validation-fraction", "label-column", "on-bad-image"}) {
    if (!options.origins.contains(name)) continue;
    throw Error(
        ErrorCode::usage,
        fmt::format("--{} has no effect with CIFAR's files in --data {}: leave it out", name, options.data));
  }
}

std::unique_ptr<const ImageData> read_images(const Options& options) {
  if (!models::has_batch_norm(options.model_name))
    return std::make_unique<PlaneData>(data::ImageSet::read(options.data, 28, 10));
  if (data::has_cifar_files(options.data)) {
    refuse_picture_settings(options);
    return std::make_unique<PlaneData>(data::read_cifar(options.data));
  }
  return std::make_unique<PictureData>(
      picture_sets::open_picture_set(
          {options.data, options.validation_data, options.label_column, options.validation_fraction}),
      PictureData::Settings{options.on_bad_image == "skip", std::max(options.data_threads, 1)});
}

}  // namespace

std::unique_ptr<Workload> read_workload(const Options& options) {
  if (models::is_image_network(options.model_name)) {
    const bool coloured = models::has_batch_norm(options.model_name);
    const NetworkWorkload::Settings settings{options.model_name, options.width_multiplier, options.image_size,
                                             coloured && options.augment, options.seed};
    return std::make_unique<NetworkWorkload>(read_images(options), settings);
  }
  if (data::has_cifar_files(options.data)) {
    throw Error(ErrorCode::usage,
                "--data " + options.data +
                    ": it holds CIFAR's files and not text: pass --model=resnet20, for example");
  }
  std::error_code ignored;
  if (std::filesystem::exists(std::filesystem::path(options.data) / data::ImageSet::names[0], ignored)) {
    throw Error(ErrorCode::usage,
                "--data " + options.data + ": it holds MNIST's files and not text: pass --model=mnist-cnn");
  }
  return std::make_unique<TokenWorkload>(
      options.model,
      data::Corpus::read(options.data, options.validation_fraction,
                         static_cast<std::uint64_t>(options.validation_tokens)),
      options.seed, options.recompute);
}

}  // namespace muster
