// SPDX-License-Identifier: Apache-2.0
#include "validation.hpp"

#include <algorithm>

#include "muster/sampler.hpp"

namespace muster {

Average validation_share(models::Gpt<float>& model, std::span<const std::uint8_t> text, int rank, int ranks) {
  Average sum;
  if (text.size() < 2) return sum;
  const auto context = static_cast<std::uint64_t>(model.config().context);
  const std::uint64_t predictions = text.size() - 1;
  const std::uint64_t windows = (predictions + context - 1) / context;
  const Share share = share_of(windows, rank, ranks);
  // Windows lie side by side, so a batch of whole ones is the text itself.
  std::uint64_t at = share.begin * context;
  const std::uint64_t end = std::min(share.end * context, predictions);
  while (at < end) {
    const std::uint64_t left = end - at;
    const std::uint64_t batch =
        std::clamp<std::uint64_t>(left / context, 1, static_cast<std::uint64_t>(model.max_batch()));
    const std::uint64_t length = std::min(left, context);
    sum.sum +=
        model.loss(text.data() + at, text.data() + at + 1, static_cast<int>(batch), static_cast<int>(length));
    sum.weight += static_cast<double>(batch * length);
    at += batch * length;
  }
  return sum;
}

}  // namespace muster
