// SPDX-License-Identifier: Apache-2.0
#include "training/workload.hpp"

#include <filesystem>

#include "models/mnist_cnn.hpp"
#include "muster/error.hpp"
#include "training/image_workload.hpp"
#include "training/token_workload.hpp"

namespace muster {

std::unique_ptr<Workload> read_workload(const Options& options) {
  if (options.model_name == "mnist-cnn") {
    using Cnn = models::MnistCnn<float>;
    return std::make_unique<ImageWorkload>(data::ImageSet::read(options.data, Cnn::side, Cnn::classes),
                                           options.seed);
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
