// SPDX-License-Identifier: Apache-2.0
#include "training/validation.hpp"

#include <algorithm>
#include <vector>

#include "muster/sampler.hpp"
#include "training/model.hpp"

namespace muster {

HeldOutBatches::HeldOutBatches(std::uint64_t tokens, std::uint64_t context, std::uint64_t max_batch, int rank,
                               int ranks, std::uint64_t group)
    : context_(context), max_batch_(max_batch) {
  if (tokens < 2) return;
  const std::uint64_t predictions = tokens - 1;
  const std::uint64_t windows = (predictions + context - 1) / context;
  const Share share = share_of((windows + group - 1) / group, rank, ranks);
  at_ = share.begin * group * context;
  end_ = std::min(share.end * group * context, predictions);
}

// Windows are adjacent, so a batch of whole windows is a contiguous part of the sequence.
std::optional<HeldOutBatches::Batch> HeldOutBatches::next() {
  if (at_ >= end_) return std::nullopt;
  const std::uint64_t left = end_ - at_;
  const Batch batch{at_, static_cast<int>(std::clamp<std::uint64_t>(left / context_, 1, max_batch_)),
                    static_cast<int>(std::min(left, context_))};
  at_ += batch.predictions();
  return batch;
}

template <typename Real>
Average validate_share(models::Gpt<Real>& model, const data::TokenSequence& tokens, int rank, int ranks,
                       std::uint64_t group, const Model::ShouldStop& should_stop) {
  Average sum;
  HeldOutBatches batches(tokens.size(), static_cast<std::uint64_t>(model.config().context),
                         static_cast<std::uint64_t>(model.max_batch()), rank, ranks, group);
  std::vector<compute::Token> part;
  while (!should_stop()) {
    const auto next = batches.next();
    if (!next) break;
    part.resize(next->predictions() + 1);
    tokens.copy(next->first, part.size(), model.config().vocabulary, part.data());
    sum.sum += round_for_exact_sum(model.loss(part.data(), part.data() + 1, next->batch, next->length));
    sum.weight += static_cast<double>(next->predictions());
  }
  return sum;
}

template Average validate_share(models::Gpt<float>&, const data::TokenSequence&, int, int, std::uint64_t,
                                const Model::ShouldStop&);
template Average validate_share(models::Gpt<bfloat16>&, const data::TokenSequence&, int, int, std::uint64_t,
                                const Model::ShouldStop&);

}  // namespace muster
