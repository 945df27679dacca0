// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "catch.hpp"
#include "temporary_folder.hpp"
#include "trainer/models/model_fixture.hpp"
#include "training/validation.hpp"

using namespace muster;

TEST_CASE("unequal shares add up to the exact loss over every held-out byte", "[validation]") {
  const models::GptConfig config{1, 2, 16, 10};
  auto compute = test_compute<float>();
  models::Gpt<float> one(config, 1, compute), three(config, 3, compute);
  initialize_boldly(one.tensors(), 4);
  initialize_boldly(three.tensors(), 4);
  const TemporaryFolder folder;
  for (const std::size_t size : {2u, 10u, 11u, 12u, 57u, 204u}) {
    const auto text = test_text(size);
    write_file(folder / "text", {text.begin(), text.end()});
    data::TokenSequence tokens;
    tokens.append(std::make_shared<data::MappedFile>(folder / "text"), 0, size, 1);
    double expected = 0;
    for (std::size_t at = 0; at + 1 < size; at += 10) {
      const int length = static_cast<int>(std::min<std::size_t>(10, size - 1 - at));
      expected += one.loss(text.data() + at, text.data() + at + 1, 1, length);
    }
    for (int ranks = 1; ranks <= 7; ++ranks) {
      Average sum;
      for (int rank = 0; rank < ranks; ++rank) {
        const Average share = validate_share(rank % 2 == 0 ? three : one, tokens, rank, ranks);
        sum.sum += share.sum;
        sum.weight += share.weight;
      }
      CAPTURE(size, ranks);
      CHECK(sum.weight == static_cast<double>(size - 1));
      CHECK(sum.sum == Approx(expected).epsilon(1e-6));
    }
  }
}

TEST_CASE("with fixed groups, the loss has the same bits for any number of ranks", "[validation]") {
  const models::GptConfig config{1, 2, 16, 10};
  auto compute = test_compute<float>();
  models::Gpt<float> model(config, 3, compute);
  initialize_boldly(model.tensors(), 4);
  const TemporaryFolder folder;
  const auto text = test_text(417);
  write_file(folder / "text", {text.begin(), text.end()});
  data::TokenSequence tokens;
  tokens.append(std::make_shared<data::MappedFile>(folder / "text"), 0, text.size(), 1);
  const double whole = validate_share(model, tokens, 0, 1, 3).sum;
  for (int ranks = 2; ranks <= 17; ++ranks) {
    Average sum;
    for (int rank = ranks; rank-- > 0;) {  // also in another order
      const Average share = validate_share(model, tokens, rank, ranks, 3);
      sum.sum += share.sum;
      sum.weight += share.weight;
    }
    CHECK(sum.sum == whole);
    CHECK(sum.weight == 416);
  }
}

TEST_CASE("without held-out data there is no loss and no prediction", "[validation]") {
  auto compute = test_compute<float>();
  models::Gpt<float> model({1, 1, 8, 8}, 1, compute);
  CHECK(validate_share(model, {}, 0, 1).weight == 0);
}

TEST_CASE("a validation can be stopped between two batches", "[validation]") {
  auto compute = test_compute<float>();
  models::Gpt<float> model({1, 1, 8, 10}, 2, compute);
  const TemporaryFolder folder;
  const auto text = test_text(101);
  write_file(folder / "text", {text.begin(), text.end()});
  data::TokenSequence tokens;
  tokens.append(std::make_shared<data::MappedFile>(folder / "text"), 0, text.size(), 1);
  int calls = 0;
  CHECK(validate_share(model, tokens, 0, 1, 1, [&] { return ++calls > 3; }).weight == 60);
  CHECK(calls == 4);
}
