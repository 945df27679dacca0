// SPDX-License-Identifier: Apache-2.0
#include "workload.hpp"

#include "image_workload.hpp"
#include "models/mnist_cnn.hpp"
#include "token_workload.hpp"

namespace muster {

std::unique_ptr<Workload> read_workload(const Options& options) {
  if (options.model_name == "mnist-cnn") {
    using Cnn = models::MnistCnn<float>;
    return std::make_unique<ImageWorkload>(data::ImageSet::read(options.data, Cnn::side, Cnn::classes),
                                           options.seed);
  }
  return std::make_unique<TokenWorkload>(
      options.model,
      data::Corpus::read(options.data, options.validation_fraction,
                         static_cast<std::uint64_t>(options.validation_tokens)),
      options.seed);
}

}  // namespace muster
