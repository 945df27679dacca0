// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <cstring>

#include "catch.hpp"
#include "model_fixture.hpp"
#include "models/gpt_decoder.hpp"
#include "trainer/weights/weight_fixture.hpp"

using namespace muster;
using compute::Token;

namespace {

constexpr models::GptConfig odd_config{2, 3, 15, 150, 37},
    odd_llama{2, 6, 36, 150, 37, models::LlamaConfig{2, 50, 500, 1e-5, false}},
    tied_llama{2, 3, 30, 150, 37, models::LlamaConfig{1, 40, 1e4, 1e-3, true}};

template <typename Real>
struct TestDecoder {
  compute::cpu::CpuCompute<Real> compute;
  models::GptDecoder<Real> decoder;
  explicit TestDecoder(const std::string& path)
      : TestDecoder(*weights::open_weights(weight_fixture(path)), 1) {}
  TestDecoder(const weights::WeightSource& source, int threads)
      : compute({threads, false, nullptr}),
        decoder(source.config(), compute, [&](std::span<float> to) { source.read(to); }) {}
  TestDecoder(const models::GptConfig& config, int threads, const char* kernels = nullptr)
      : compute({threads, false, kernels ? compute::cpu::find_kernels<Real>(kernels) : nullptr}),
        decoder(config, compute, [&](std::span<float> to) {
          const auto parameters = random_parameters(config);
          for (std::size_t i = 0; i < to.size(); ++i) to[i] = 0.3F * parameters[i];
        }) {}
  std::vector<Real> read(const std::vector<Token>& tokens) {
    const auto logits = decoder.read(tokens);
    return {logits.begin(), logits.end()};
  }
};

std::vector<Token> tokens_below(int vocabulary, std::size_t count) {
  std::vector<Token> tokens;
  for (std::size_t i = 0; i < count; ++i)
    tokens.push_back(static_cast<Token>(uniform_bits(3, 4, i) % static_cast<unsigned>(vocabulary)));
  return tokens;
}

template <typename Real>
double largest_difference(const std::vector<Real>& a, const std::vector<Real>& b) {
  REQUIRE(a.size() == b.size());
  double largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i)
    largest = std::max(largest, std::abs(double(float(a[i])) - double(float(b[i]))));
  return largest;
}

}  // namespace

TEST_CASE("logits are transformers' within 1e-5, token by token and at once", "[decoder]") {
  const auto expected = expected_of_transformers();
  const auto tokens = expected.at("tokens").get<std::vector<Token>>();
  TestDecoder<float> one("huggingface"), whole("llmc.bin");
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    const auto logits = expected.at("logits").at(i).get<std::vector<float>>();
    CHECK(largest_difference(one.read({tokens[i]}), logits) < 1e-5);
    whole.decoder.reset();
    CHECK(largest_difference(
              whole.read({tokens.begin(), tokens.begin() + static_cast<std::ptrdiff_t>(i) + 1}), logits) <
          1e-5);
  }
  CHECK(one.decoder.length() == 12);
}

TEST_CASE("greedy tokens are transformers'", "[decoder]") {
  const auto expected = expected_of_transformers().at("greedy").get<std::vector<Token>>();
  std::vector<Token> tokens(expected.begin(), expected.begin() + 4);
  TestDecoder<float> test("huggingface");
  auto logits = test.read(tokens);
  while (tokens.size() < expected.size()) {
    tokens.push_back(static_cast<Token>(std::max_element(logits.begin(), logits.end()) - logits.begin()));
    if (tokens.size() < expected.size()) logits = test.read({tokens.back()});
  }
  CHECK(tokens == expected);
}

TEST_CASE("cached logits are those of a decoder that reads all at once", "[decoder]") {
  const auto config = GENERATE(odd_config, odd_llama, tied_llama);
  // 150 tokens are more than are computed together.
  const auto tokens = tokens_below(config.vocabulary, 150);
  const auto check = [&](auto real, double bound) {
    using Real = decltype(real);
    TestDecoder<Real> cached(config, 1), whole(config, 1);
    cached.read({tokens.begin(), tokens.begin() + 70});
    for (std::size_t i = 70; i + 1 < tokens.size(); ++i) cached.read({tokens[i]});
    CHECK(largest_difference(cached.read({tokens.back()}), whole.read(tokens)) < bound);
  };
  check(double{}, 1e-12);
  check(float{}, 1e-4);
  check(bfloat16{}, 0.1);
}

TEST_CASE("the decoder computes what the trained model computes", "[decoder]") {
  const auto config = GENERATE(odd_config, odd_llama, tied_llama);
  const auto tokens = tokens_below(config.vocabulary, 41);
  auto compute = test_compute<double>();
  models::Gpt<double> model(config, 1, compute);
  const auto parameters = random_parameters(config);
  for (std::size_t i = 0; i < parameters.size(); ++i)
    model.tensors().parameters()[i] = double{0.3F * parameters[i]};
  TestDecoder<double> test(config, 1);
  double loss = 0;
  for (std::size_t i = 0; i + 1 < tokens.size(); ++i) {
    const auto logits = test.read({tokens[i]});
    double total = 0;
    for (const double logit : logits) total += std::exp(logit);
    loss += std::log(total) - logits[tokens[i + 1]];
  }
  CHECK(model.loss(tokens.data(), tokens.data() + 1, 1, 40) == Approx(loss).epsilon(1e-12));
}

TEST_CASE("threads and resets do not change a bit", "[decoder]") {
  const auto config = GENERATE(odd_config, odd_llama, tied_llama);
  const auto tokens = tokens_below(config.vocabulary, 140);
  TestDecoder<float> one(config, 1), three(config, 3);
  const auto expected = one.read(tokens), same = three.read(tokens);
  CHECK(std::memcmp(expected.data(), same.data(), expected.size() * sizeof(float)) == 0);
  three.read({tokens.begin(), tokens.begin() + 9});
  three.decoder.reset();
  CHECK(three.read(tokens) == expected);
}

TEST_CASE("every instruction set computes the same logits", "[decoder]") {
  const auto config = GENERATE(odd_config, odd_llama, tied_llama);
  const auto tokens = tokens_below(config.vocabulary, 30);
  const auto check = [&](auto real, double bound) {
    using Real = decltype(real);
    TestDecoder<Real> baseline(config, 1, "baseline");
    const auto expected = baseline.read(tokens);
    for (const char* name : {"avx2", "avx512"}) {
      if (!compute::cpu::find_kernels<Real>(name)) continue;
      TestDecoder<Real> test(config, 1, name);
      CHECK(largest_difference(test.read(tokens), expected) < bound);
    }
  };
  check(double{}, 1e-11);
  check(float{}, 1e-4);
  check(bfloat16{}, 0.1);
}
