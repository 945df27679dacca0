// SPDX-License-Identifier: Apache-2.0
#include "training/workload.hpp"

#include <filesystem>

#include "data/cifar.hpp"
#include "data/idx.hpp"
#include "models/named_network.hpp"
#include "muster/error.hpp"
#include "training/network_workload.hpp"
#include "training/token_workload.hpp"

namespace muster {

std::unique_ptr<Workload> read_workload(const Options& options) {
  if (models::is_image_network(options.model_name)) {
    const bool coloured = models::has_batch_norm(options.model_name);
    const NetworkWorkload::Settings settings{options.model_name, options.width_multiplier, options.image_size,
                                             coloured && options.augment, options.seed};
    return std::make_unique<NetworkWorkload>(
        coloured ? data::read_cifar(options.data) : data::ImageSet::read(options.data, 28, 10), settings);
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
