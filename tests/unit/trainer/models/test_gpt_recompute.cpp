// SPDX-License-Identifier: Apache-2.0
// Activation checkpointing: the same bits as without it.
#include <cstring>

#include "catch.hpp"
#include "model_fixture.hpp"

using namespace muster;

namespace {

template <typename Real>
void check_same_bits(const models::GptConfig& config, int batch, int length) {
  auto compute = test_compute<Real>(2);
  models::Gpt<Real> kept(config, batch, compute), recomputed(config, batch, compute, 0, true);
  CHECK((recomputed.bytes() < kept.bytes()) == (config.layers > 1));
  const auto text = test_text(static_cast<std::size_t>(batch * config.context) + 1);
  std::vector<std::size_t> order, same_order;
  for (auto* model : {&kept, &recomputed}) {
    initialize_boldly(model->tensors(), 3);
    model->tensors().round_parameters(compute);
  }
  const auto step = [&](models::Gpt<Real>& model, int tokens, std::vector<std::size_t>& ready) {
    return model.loss_and_gradients(text.data(), text.data() + 1, batch, tokens, 0.01F,
                                    [&](std::size_t tensor) { ready.push_back(tensor); });
  };
  // A shorter step in between must leave nothing behind.
  for (const int tokens : {config.context, length, config.context}) {
    CHECK(step(kept, tokens, order) == step(recomputed, tokens, same_order));
    const auto expected = kept.tensors().gradients(), found = recomputed.tensors().gradients();
    CHECK(std::memcmp(expected.data(), found.data(), expected.size_bytes()) == 0);
  }
  CHECK(order == same_order);
  CHECK(kept.loss(text.data(), text.data() + 1, batch, length) ==
        recomputed.loss(text.data(), text.data() + 1, batch, length));
}

}  // namespace

TEST_CASE("recomputed activations give the same loss and gradients, bit by bit", "[recompute]") {
  for (const models::GptConfig& config : {models::GptConfig{1, 2, 16, 12}, models::GptConfig{4, 3, 21, 40},
                                          models::GptConfig{3, 2, 32, 33, 300},
                                          models::GptConfig{3, 4, 32, 33, 300, models::LlamaConfig{2, 40}}}) {
    CAPTURE(config.layers);
    check_same_bits<float>(config, 3, 9);
    check_same_bits<double>(config, 2, 5);
    check_same_bits<bfloat16>(config, 3, 9);
  }
}
