// SPDX-License-Identifier: Apache-2.0
#include "training/workload.hpp"

#include <fmt/format.h>

#include <filesystem>
#include <utility>

#include "config/refusal.hpp"
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

/// `what` is in the data.
template <typename Value>
void refuse_with(const Options& o, const std::string& what, const char* name, const Value& value,
                 const Value& unset) {
  refuse_ineffective(o, name, value, unset, !o.origins.contains(name),
                     fmt::format(" has no effect with {} in --data {}: leave it out", what, o.data));
}

void refuse_validation_fraction(const Options& o, const std::string& what) {
  refuse_with(o, what, "validation-fraction", o.validation_fraction, Options{}.validation_fraction);
}

/// MNIST's and CIFAR's files have a part to validate with, and their images have one form.
void refuse_picture_settings(const Options& o, const std::string& what) {
  const Options unset;
  refuse_validation_fraction(o, what);
  refuse_with(o, what, "validation-data", o.validation_data, unset.validation_data);
  refuse_with(o, what, "label-column", o.label_column, unset.label_column);
  refuse_with(o, what, "on-bad-image", o.on_bad_image, unset.on_bad_image);
  refuse_with(o, what, "data-threads", o.data_threads, unset.data_threads);
}

std::unique_ptr<const ImageData> read_images(const Options& options, int data_threads) {
  if (!models::has_batch_norm(options.model_name)) {
    refuse_picture_settings(options, "MNIST's files");
    refuse_with(options, "MNIST's files", "image-size", options.image_size, Options{}.image_size);
    return std::make_unique<PlaneData>(data::ImageSet::read(options.data, 28, 10));
  }
  if (data::has_cifar_files(options.data)) {
    refuse_picture_settings(options, "CIFAR's files");
    return std::make_unique<PlaneData>(data::read_cifar(options.data));
  }
  if (options.validation_data.empty() && picture_sets::has_held_out_part(options.data))
    refuse_validation_fraction(options, "a folder for validation");
  return std::make_unique<PictureData>(
      picture_sets::open_picture_set(
          {options.data, options.validation_data, options.label_column, options.validation_fraction}),
      PictureData::Settings{options.on_bad_image == "skip", data_threads});
}

}  // namespace

std::unique_ptr<Workload> read_workload(const Options& options, int data_threads) {
  if (models::is_image_network(options.model_name)) {
    const bool coloured = models::has_batch_norm(options.model_name);
    const NetworkWorkload::Settings settings{options.model_name, options.width_multiplier, options.image_size,
                                             coloured && options.augment, options.seed};
    return std::make_unique<NetworkWorkload>(read_images(options, data_threads), settings);
  }
  if (data::has_both_cifar_parts(options.data)) {
    throw Error(ErrorCode::usage,
                "--data " + options.data +
                    ": it holds CIFAR's files and not text: pass --model=resnet20, for example");
  }
  std::error_code ignored;
  if (std::filesystem::exists(std::filesystem::path(options.data) / data::ImageSet::names[0], ignored)) {
    throw Error(ErrorCode::usage,
                "--data " + options.data + ": it holds MNIST's files and not text: pass --model=mnist-cnn");
  }
  auto corpus = data::Corpus::read(options.data, options.validation_fraction,
                                   static_cast<std::uint64_t>(options.validation_tokens));
  if (corpus.has_validation_shards()) refuse_validation_fraction(options, "shards for validation (_val_)");
  return std::make_unique<TokenWorkload>(options.model, std::move(corpus), options.seed, options.recompute);
}

}  // namespace muster
