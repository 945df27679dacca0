// SPDX-License-Identifier: Apache-2.0
// A GPT that is divided into stages computes the bits of the whole one.
#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "catch.hpp"
#include "model_fixture.hpp"
#include "models/model_memory.hpp"

using namespace muster;
using namespace muster::models;

namespace {

constexpr int sequences = 2, tokens_each = 7;
constexpr std::size_t tokens_at_once = sequences * tokens_each;

template <typename Real>
using Gradients = std::map<std::string, std::vector<typename Gpt<Real>::Sum>>;

/// The gradients of one micro-sequences, by the tensors' names; a copy has none.
template <typename Real>
Gradients<Real> gradients_of(ModelTensors<typename Gpt<Real>::Sum>& tensors) {
  Gradients<Real> all;
  for (std::size_t i = 0; i < tensors.table().tensors.size(); ++i) {
    const Tensor& tensor = tensors.table().tensors[i];
    if (tensor.is_trained) all[tensor.name].assign(tensors.gradient(i), tensors.gradient(i) + tensor.count);
  }
  return all;
}

/// How a backward pass is computed.
enum class Backward { whole, recompute, halves };

/// Stages that begin at these layers, with two micro-batches in flight on one device.
template <typename Real>
struct Stages {
  Stages(const GptConfig& config, const std::vector<int>& begins, compute::Compute<Real>& compute,
         Backward its_backward)
      : how(its_backward) {
    const bool recompute = how == Backward::recompute;
    for (std::size_t i = 0; i < begins.size(); ++i) {
      const GptStage stage{{begins[i], i + 1 < begins.size() ? begins[i + 1] : config.layers},
                           2,
                           how == Backward::halves ? 2 : 0};
      stages.push_back(std::make_unique<Gpt<Real>>(config, stage, sequences, compute, 3, recompute));
      CHECK(stages.back()->bytes() ==
            total_bytes(gpt_memory(config, stage, sequences, sizeof(Real), 3, recompute)));
      stages.back()->tensors().initialize(7);
      stages.back()->tensors().round_parameters(compute);
    }
  }

  void forward(int slot, const Token* tokens) {
    for (std::size_t i = 0; i < stages.size(); ++i) {
      if (i > 0) std::copy_n(stages[i - 1]->output(slot), tokens_at_once * width(), stages[i]->input(slot));
      stages[i]->forward(slot, tokens, sequences, tokens_each);
    }
  }

  Gradients<Real> backward(int slot, const Token* tokens, const Token* targets) {
    Gradients<Real> all;
    for (std::size_t i = stages.size(); i-- > 0;) {
      if (i + 1 < stages.size())
        std::copy_n(stages[i + 1]->gradient(slot), tokens_at_once * width(), stages[i]->gradient(slot));
      if (i == 0 && stages.size() > 1 && stages[0]->config().has_tied_output()) {
        auto& last = stages.back()->tensors();
        const std::size_t copy = last.table().tensors.size() - 1;
        std::copy_n(last.gradient(copy), last.table().tensors[copy].count, stages[0]->tensors().gradient(0));
      }
      std::vector<int> ready(stages[i]->tensors().table().tensors.size());
      const auto count = [&](std::size_t t) { ++ready[t]; };
      if (how == Backward::halves) {
        stages[i]->backward_input(slot, slot, targets, sequences, tokens_each, 0.25f, count);
        stages[i]->backward_weight(slot, slot, tokens, sequences, tokens_each, count);
      } else {
        stages[i]->backward(slot, tokens, targets, sequences, tokens_each, 0.25f, count);
      }
      CHECK(std::all_of(ready.begin(), ready.end(), [](int times) { return times == 1; }));
      all.merge(gradients_of<Real>(stages[i]->tensors()));
    }
    return all;
  }

  Backward how;
  std::size_t width() const { return static_cast<std::size_t>(stages[0]->config().width); }
  std::vector<std::unique_ptr<Gpt<Real>>> stages;
};

template <typename Real>
void check_stages(const GptConfig& config, const std::vector<int>& begins, Backward how) {
  auto compute = test_compute<Real>();
  Gpt<Real> whole(config, sequences, compute, 0, false);
  whole.tensors().initialize(7);
  whole.tensors().round_parameters(compute);
  Stages<Real> divided(config, begins, compute, how);
  const auto text = test_text(2 * tokens_at_once + 1);
  for (int slot = 0; slot < 2; ++slot)
    divided.forward(slot, text.data() + static_cast<std::size_t>(slot) * tokens_at_once);
  for (int slot = 0; slot < 2; ++slot) {
    const Token* tokens = text.data() + static_cast<std::size_t>(slot) * tokens_at_once;
    const auto found = divided.backward(slot, tokens, tokens + 1);
    const double loss = compute.loss();
    CHECK(whole.loss_and_gradients(tokens, tokens + 1, sequences, tokens_each, 0.25f) == loss);
    CHECK(gradients_of<Real>(whole.tensors()) == found);
    divided.forward(slot, tokens);
    CHECK(divided.stages.back()->output_loss(slot, tokens + 1, sequences, tokens_each) == loss);
  }
}

}  // namespace

TEST_CASE("stages of a GPT compute the bits of the whole one", "[gpt][pipeline]") {
  const GptConfig gpt2{3, 2, 16, tokens_each, 128};
  const GptConfig llama{3, 2, 16, tokens_each, 128, LlamaConfig{1, 24, 10000, 1e-5, false}};
  GptConfig tied = llama;
  tied.llama->tied_output = true;
  for (const Backward how : {Backward::whole, Backward::recompute, Backward::halves}) {
    for (const GptConfig& config : {gpt2, llama, tied}) {
      check_stages<float>(config, {0, 1}, how);
      check_stages<float>(config, {0, 1, 2}, how);
    }
    check_stages<bfloat16>(gpt2, {0, 2}, how);
  }
}

TEST_CASE("the tables of stages are slices of the whole table", "[gpt][pipeline]") {
  const GptConfig config{4, 2, 16, 8, 100};
  const TensorTable whole = gpt_tensors(config);
  const TensorTable last = gpt_tensors(config, {3, 4});
  const std::size_t first = first_tensor(config, {3, 4});
  for (std::size_t i = 0; first + i < whole.tensors.size(); ++i) {
    CHECK(last.tensors[i].name == whole.tensors[first + i].name);
    CHECK(last.tensors[i].number == first + i);
    CHECK(last.tensors[i].offset == whole.tensors[first + i].offset - whole.tensors[first].offset);
  }
  CHECK(last.trained_size == whole.arena_size - whole.tensors[first].offset);
  CHECK(last.tensors.back().name == "token_embedding");
  CHECK(gpt_tensors(config, {0, 3}).parameter_count + last.parameter_count == whole.parameter_count);
  CHECK(gpt_flops_per_token(config, {0, 3}) + gpt_flops_per_token(config, {3, 4}) ==
        Approx(gpt_flops_per_token(config)));
}
