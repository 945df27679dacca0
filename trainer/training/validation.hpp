// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>

#include "data/token_sequence.hpp"
#include "models/gpt.hpp"
#include "muster/average.hpp"
#include "training/model.hpp"

namespace muster {

/// The batches in which `rank` of `ranks` validates its share of the held-out tokens: whole windows of
/// `context` tokens side by side, at most `max_batch` at once; the last window may be shorter. The first
/// token is only context for the second. Each later token is predicted exactly once over all ranks. A share
/// is whole groups of `group` windows, at least 1.
class HeldOutBatches {
 public:
  struct Batch {
    std::uint64_t first = 0;  ///< token; the batch needs batch * length + 1 tokens from here
    int batch = 0, length = 0;
    std::uint64_t predictions() const {
      return static_cast<std::uint64_t>(batch) * static_cast<std::uint64_t>(length);
    }
  };
  HeldOutBatches(std::uint64_t tokens, std::uint64_t context, std::uint64_t max_batch, int rank, int ranks,
                 std::uint64_t group);
  /// Nothing behind the last one.
  std::optional<Batch> next();

 private:
  std::uint64_t context_, max_batch_, at_ = 0, end_ = 0;
};

/// This rank's share of the loss over the held-out tokens, as HeldOutBatches divides them: cross-entropy in
/// nats, weighted by predictions. `should_stop`: see Model::validate_share().
/// @throws muster::Error(ErrorCode::usage) on a token beyond the vocabulary.
template <typename Real>
Average validate_share(models::Gpt<Real>& model, const data::TokenSequence& tokens, int rank, int ranks,
                       std::uint64_t group = 1, const Model::ShouldStop& should_stop = Model::never_stop);

}  // namespace muster
