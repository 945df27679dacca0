// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <map>

#include "catch.hpp"
#include "data/shard.hpp"
#include "data/synthetic_language.hpp"
#include "muster/error.hpp"
#include "strategies/data_parallel/replica.hpp"
#include "temporary_folder.hpp"
#include "trainer/models/model_fixture.hpp"

using namespace muster;
using data::Language;

namespace {

/// Entropy of the next token given the last `order`, estimated from counts with Miller and Madow's
/// correction.
double counted_entropy(const std::vector<compute::Token>& text, int order) {
  std::map<std::vector<compute::Token>, std::map<compute::Token, double>> counts;
  double total = 0, entropy = 0, seen = 0;
  for (std::size_t i = static_cast<std::size_t>(order); i < text.size(); ++i, ++total) {
    const auto at = text.begin() + static_cast<std::ptrdiff_t>(i);
    counts[{at - order, at}][*at] += 1;
  }
  for (const auto& [last, nexts] : counts) {
    double here = 0;
    for (const auto& [next, count] : nexts) here += count;
    for (const auto& [next, count] : nexts) entropy -= count / total * std::log(count / here);
    seen += static_cast<double>(nexts.size()) - 1;
  }
  return entropy + seen / (2 * total);
}

}  // namespace

TEST_CASE("a language's entropy rate is that of the text that it generates", "[language]") {
  for (const auto& [symbols, order] : {std::pair{4, 2}, std::pair{2, 5}, std::pair{9, 1}}) {
    const Language language(symbols, order, 7);
    const auto text = language.generate(100'000);
    const double rate = language.entropy_rate();
    CAPTURE(symbols, order, rate);
    CHECK(rate > 0);
    CHECK(rate < std::log(symbols));
    // Both means have a standard deviation of about 1 / sqrt(100,000) = 0.0032.
    CHECK(counted_entropy(text, order) == Approx(rate).margin(0.015));
    double surprisal = 0;
    for (std::size_t i = static_cast<std::size_t>(order); i < text.size(); ++i)
      surprisal += language.surprisal(&text[i - static_cast<std::size_t>(order)], text[i]);
    CHECK(surprisal / static_cast<double>(text.size()) == Approx(rate).margin(0.015));
    CHECK(language.generate(1000) == std::vector<compute::Token>(text.begin(), text.begin() + 1000));
    CHECK(Language(symbols, order, 8).generate(1000) != language.generate(1000));
  }
}

TEST_CASE("the entropy rate of two states equals the formula's", "[language]") {
  // Two symbols of order 1: with p = P(1 | 0) and q = P(0 | 1) the rate is (q H(p) + p H(q)) / (p + q).
  const Language language(2, 1, 3);
  const compute::Token zero = 0, one = 1;
  const double p = std::exp(-language.surprisal(&zero, 1)), q = std::exp(-language.surprisal(&one, 0));
  const auto entropy = [](double x) { return -x * std::log(x) - (1 - x) * std::log(1 - x); };
  CHECK(language.entropy_rate() == Approx((q * entropy(p) + p * entropy(q)) / (p + q)).epsilon(1e-12));
}

TEST_CASE("impossible languages are refused", "[language]") {
  for (const auto& [symbols, order] :
       {std::pair{1, 1}, std::pair{0, 1}, std::pair{5, 0}, std::pair{-3, 2}, std::pair{65536, 1},
        std::pair{27, 6}, std::pair{2, 24}, std::pair{2, 1000}})
    CHECK_THROWS_AS(Language(symbols, order, 1), Error);
  CHECK_NOTHROW(Language(2, 10, 1));
}

TEST_CASE("a model's loss approaches the entropy rate and stays above it", "[language]") {
  const TemporaryFolder folder;
  const Language language(5, 1, 2);
  data::write_shard(folder / "language.bin", language.generate(60'000));
  Options options;
  options.data = folder / "language.bin";
  options.model = {1, 2, 16, 16, 5};
  const auto workload = read_workload(options);
  CHECK(std::string(workload->unit()) == "token");
  Job job = Job::join({.device = Device::cpu});
  auto compute = test_compute<float>();
  Replica replica({options.optimizer, 16, 1}, *workload, compute, job.host_world());
  replica.initialize();
  for (std::int64_t step = 0; step < 250; ++step)
    REQUIRE(replica.step(step, step * 16, step < 200 ? 1e-2 : 2e-3, {}).finite);
  Validation found = replica.validate_share();
  replica.all_reduce_validation(found);
  job.leave();
  CHECK(found.loss.weight == 6000);
  const double rate = language.entropy_rate();
  CAPTURE(rate, found.loss.value());
  CHECK(found.loss.value() < rate + 0.08);
  // The held-out text's own standard deviation is about 1 / sqrt(6000) = 0.013.
  CHECK(found.loss.value() > rate - 0.05);
}
