// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "data/token_sequence.hpp"
#include "models/gpt.hpp"
#include "muster/average.hpp"
#include "training/model.hpp"

namespace muster {

/// This rank's share of the loss over the held-out tokens: cross-entropy in nats, weighted by predictions.
/// The first token is only context for the second. Every later token is predicted exactly once over all
/// ranks, from up to config.context earlier tokens of its window. Each rank gets a contiguous share, possibly
/// of another size than the others', of whole groups of `group` windows (at least 1); the last window may be
/// shorter. `should_stop`: see Model::validate_share().
/// @throws muster::Error(ErrorCode::usage) on a token beyond the vocabulary.
template <typename Real>
Average validate_share(models::Gpt<Real>& model, const data::TokenSequence& tokens, int rank, int ranks,
                       std::uint64_t group = 1, const Model::ShouldStop& should_stop = Model::never_stop);

}  // namespace muster
