// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "data/token_sequence.hpp"
#include "models/gpt.hpp"
#include "muster/average.hpp"
#include "training/model.hpp"

namespace muster {

/// This rank's share of the loss over held-out tokens: cross-entropy in nats, weighted with predictions. The
/// first token only gives context to the second; every later one is predicted exactly once over all ranks,
/// from up to config.context tokens before it in its window. Windows go to ranks in contiguous, possibly
/// unequal shares of whole groups of `group` windows (at least 1), and the last window may be shorter.
/// `cut`: see Model::validation_share().
/// @throws muster::Error(ErrorCode::usage) on a token beyond the vocabulary.
template <typename Real>
Average validation_share(models::Gpt<Real>& model, const data::TokenSequence& tokens, int rank, int ranks,
                         std::uint64_t group = 1, const Model::Cut& cut = Model::never);

}  // namespace muster
