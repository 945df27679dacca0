// SPDX-License-Identifier: Apache-2.0
#include "training/validation.hpp"

#include <algorithm>
#include <vector>

#include "muster/sampler.hpp"
#include "training/model.hpp"

namespace muster {

template <typename Real>
Average validate_share(models::Gpt<Real>& model, const data::TokenSequence& tokens, int rank, int ranks,
                       std::uint64_t group, const Model::ShouldStop& should_stop) {
  Average sum;
  if (tokens.size() < 2) return sum;
  const auto context = static_cast<std::uint64_t>(model.config().context);
  const std::uint64_t predictions = tokens.size() - 1;
  const std::uint64_t windows = (predictions + context - 1) / context;
  const Share share = share_of((windows + group - 1) / group, rank, ranks);
  // Windows are adjacent, so a batch of whole windows is a contiguous part of the sequence.
  std::uint64_t at = share.begin * group * context;
  const std::uint64_t end = std::min(share.end * group * context, predictions);
  std::vector<compute::Token> part;
  while (at < end && !should_stop()) {
    const std::uint64_t left = end - at;
    const std::uint64_t batch =
        std::clamp<std::uint64_t>(left / context, 1, static_cast<std::uint64_t>(model.max_batch()));
    const std::uint64_t length = std::min(left, context);
    part.resize(batch * length + 1);
    tokens.copy(at, part.size(), model.config().vocabulary, part.data());
    sum.sum += round_for_exact_sum(
        model.loss(part.data(), part.data() + 1, static_cast<int>(batch), static_cast<int>(length)));
    sum.weight += static_cast<double>(batch * length);
    at += batch * length;
  }
  return sum;
}

template Average validate_share(models::Gpt<float>&, const data::TokenSequence&, int, int, std::uint64_t,
                                const Model::ShouldStop&);
template Average validate_share(models::Gpt<bfloat16>&, const data::TokenSequence&, int, int, std::uint64_t,
                                const Model::ShouldStop&);

}  // namespace muster
