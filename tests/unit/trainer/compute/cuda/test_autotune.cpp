// SPDX-License-Identifier: Apache-2.0
// The choice of cuBLASLt's algorithms by time, on the fake cuBLASLt, whose algorithms differ in bits and
// times.
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "catch.hpp"
#include "compute/cuda/autotune_results.hpp"
#include "muster/error.hpp"
#include "muster/philox.hpp"
#include "trainer/fakes/gpu_or_doubles.hpp"

using muster::bfloat16;
using muster::compute::cuda::AutotuneResults;
using muster::compute::cuda::CudaCompute;
using muster::compute::cuda::Epilogue;
using muster::compute::cuda::parse_autotune_results;

namespace {

constexpr int rows = 16, width = 64, wide = 128;

/// Variables of the fake cuBLASLt during a test.
struct FakeCublas {
  explicit FakeCublas(const char* times, const char* mode = "", const char* version = nullptr,
                      const char* cuda = "")
      : gpu(mode, cuda) {
    setenv("FAKE_CUBLASLT_TIMES", times, 1);
    if (version != nullptr) setenv("FAKE_CUBLASLT_VERSION", version, 1);
  }
  ~FakeCublas() {
    unsetenv("FAKE_CUBLASLT_TIMES");
    unsetenv("FAKE_CUBLASLT_VERSION");
  }
  TestGpu gpu;
};

std::vector<bfloat16> random_numbers(std::size_t count, std::uint64_t stream) {
  std::vector<bfloat16> out(count);
  for (std::size_t i = 0; i < count; ++i) out[i] = bfloat16(static_cast<float>(muster::normal(5, stream, i)));
  return out;
}

struct Outcome {
  std::vector<float> numbers;  ///< of a weight gradient
  std::string results;
  int timed = 0;
  std::string refusal;  ///< of load()
};

/// A weight gradient, a bias gradient and a product with GELU.
struct Products {
  explicit Products(CudaCompute& device)
      : on(device),
        input(on.memory(), random_numbers(rows * width, 1)),
        d_out(on.memory(), random_numbers(rows * wide, 2)),
        weight(on.memory(), random_numbers(wide * width, 3)),
        bias(on.memory(), random_numbers(wide, 4)),
        before(on.memory(), rows * wide),
        after(on.memory(), rows * wide),
        d_weight(on.memory(), wide * width),
        d_bias(on.memory(), wide) {}
  void compute() {
    on.weight_gradient(rows, width, wide, input.data(), d_out.data(), d_weight.data(), d_bias.data());
    on.matmul_gelu(rows, width, wide, input.data(), weight.data(), bias.data(), before.data(), after.data());
  }
  /// after = input·weight^T, added to `after`.
  void accumulate() {
    on.matmul({rows, wide, width, false, true, false, true}, input.data(), weight.data(), nullptr,
              after.data());
  }

  CudaCompute& on;
  OnDevice<bfloat16> input, d_out, weight, bias, before, after;
  OnDevice<float> d_weight, d_bias;
};

/// With timing on.
Outcome compute_products(const std::string& loaded = "") {
  CudaCompute on({});
  Outcome outcome;
  if (!loaded.empty()) outcome.refusal = on.autotuner()->load(loaded);
  on.autotuner()->set_timing(true);
  Products products(on);
  for (int i = 0; i < 2; ++i) products.compute();  // the second time uses what the first has chosen
  outcome.numbers = products.d_weight.values();
  outcome.results = on.autotuner()->results();
  outcome.timed = on.autotuner()->timed();
  return outcome;
}

}  // namespace

TEST_CASE("the fastest algorithm is chosen, and a later run with these results has the same bits",
          "[autotune]") {
  const auto with = [](const char* times, const std::string& loaded = "", const char* version = nullptr) {
    const FakeCublas fake(times, "", version);
    return compute_products(loaded);
  };
  const Outcome third = with("5 9 1"), second = with("5 1 9");
  CHECK(third.numbers != second.numbers);
  CHECK(third.timed == 4);  // two with an epilogue, and the same two without
  const AutotuneResults results = parse_autotune_results(third.results);
  CHECK(results.gpu == "fake GPU");
  CHECK(results.library.starts_with("cuBLASLt "));
  for (const auto& product : results.products) {
    REQUIRE(product.candidates.size() == 3);  // one of the four does not run
    CHECK(product.candidates[product.chosen].id == 3);
    CHECK(product.candidates[product.chosen].split_k == 3);
    // The fake's clock advances by one more for the event itself.
    CHECK(product.candidates[0].microseconds == Approx(1e3 * (5 * 5 + 1) / 5));
    CHECK_FALSE(product.separate);
    const bool is_fused =
        product.shape.epilogue == Epilogue::bias_gradient || product.shape.epilogue == Epilogue::bias_gelu;
    CHECK(product.separate_microseconds.has_value() == is_fused);
  }

  const Outcome again = with("5 1 9", third.results);
  CHECK(again.refusal.empty());
  CHECK(again.timed == 0);
  CHECK(again.numbers == third.numbers);
  for (const auto& product : parse_autotune_results(again.results).products)
    CHECK(std::find(results.products.begin(), results.products.end(), product) != results.products.end());

  const Outcome other = with("5 1 9", third.results, "120805");
  CHECK(other.refusal.find("and here are fake GPU and cuBLASLt 12.8.5") != std::string::npos);
  CHECK(other.timed == 4);
  CHECK(other.numbers == second.numbers);
}

TEST_CASE("a slow epilogue is computed by a kernel of its own, and so it is in a later run", "[autotune]") {
  for (const char* mode : {"slow_epilogues", "plain"}) {
    CAPTURE(mode);
    const FakeCublas fake("1 1 1", mode);
    const Outcome first = compute_products();
    int separate = 0;
    for (const auto& product : parse_autotune_results(first.results).products) separate += product.separate;
    CHECK(separate == 2);
    CHECK(first.timed == 4);
    const Outcome again = compute_products(first.results);
    CHECK(again.timed == 0);
    CHECK(again.numbers == first.numbers);
  }
}

TEST_CASE("each product that a run computes is listed, with its algorithm and how that was chosen",
          "[autotune]") {
  struct Listed {
    std::string choice;
    int id;  ///< 0: none
    bool is_timed;
    bool operator==(const Listed&) const = default;
  };
  // By (epilogue, accumulate) after a step with timing, unless there is nothing to time, and a step without.
  const auto list = [](bool timing, const std::string& loaded = "") {
    CudaCompute on({});
    if (!loaded.empty()) REQUIRE(on.autotuner()->load(loaded).empty());
    Products products(on);
    on.autotuner()->set_timing(timing);
    if (timing) products.compute();
    on.autotuner()->set_timing(false);
    CHECK(on.autotuner()->plans().empty());
    products.compute();
    products.accumulate();
    const auto json = nlohmann::json::parse(on.autotuner()->plans());
    CHECK(json.at("gpu") == "fake GPU");
    CHECK(json.at("library").get<std::string>().starts_with("cuBLASLt "));
    std::map<std::pair<std::string, bool>, Listed> found;
    for (const auto& product : json.at("products")) {
      const auto& algorithm = product.at("algorithm");
      const bool is_gradient = product.at("transpose_a");
      CHECK(product.at("m") == (is_gradient ? wide : rows));
      CHECK(product.at("n") == (is_gradient ? width : wide));
      CHECK(product.at("types") == (is_gradient ? "bf16 bf16 fp32" : "bf16 bf16 bf16"));
      const bool is_new = found
                              .try_emplace({product.at("epilogue"), product.at("accumulate")},
                                           Listed{product.at("choice"),
                                                  algorithm.is_null() ? 0 : algorithm.at("id").get<int>(),
                                                  algorithm.contains("microseconds")})
                              .second;
      CHECK(is_new);
      if (!algorithm.is_null()) CHECK(algorithm.at("split_k") == algorithm.at("id"));
    }
    return found;
  };
  using List = std::map<std::pair<std::string, bool>, Listed>;
  const Listed first{"first", 1, false}, timed{"timed", 3, true}, loaded{"loaded", 3, true};
  {
    const FakeCublas fake("5 9 1");
    CHECK(list(false) ==
          List{{{"bias_gradient", false}, first}, {{"bias_gelu", false}, first}, {{"none", true}, first}});
    // A product that accumulates is never timed.
    CHECK(list(true) ==
          List{{{"bias_gradient", false}, timed}, {{"bias_gelu", false}, timed}, {{"none", true}, first}});
    CHECK(list(false, compute_products().results) ==
          List{{{"bias_gradient", false}, loaded}, {{"bias_gelu", false}, loaded}, {{"none", true}, first}});
  }
  const FakeCublas fake("5 9 1", "slow_epilogues");
  CHECK(list(true) == List{{{"bias_gradient", false}, {"timed", 0, false}},
                           {{"bias_gelu", false}, {"timed", 0, false}},
                           {{"none", false}, timed},
                           {{"bias", false}, timed},
                           {{"none", true}, first}});
}

TEST_CASE("a GPU that works late has the same times", "[autotune]") {
  const auto results = [](const char* cuda) {
    const FakeCublas fake("5 9 1", "", nullptr, cuda);
    return compute_products().results;
  };
  CHECK(results("late") == results(""));
}

TEST_CASE("an algorithm that cuBLASLt refuses is chosen anew", "[autotune]") {
  const FakeCublas fake("5 9 1");
  AutotuneResults results = parse_autotune_results(compute_products().results);
  for (auto& product : results.products) product.algorithm.fill(0);
  const Outcome found = compute_products(muster::compute::cuda::write_autotune_results(results));
  CHECK(found.refusal.empty());
  CHECK(found.timed == 4);
}

TEST_CASE("damaged results are refused", "[autotune]") {
  const FakeCublas fake("5 9 1");
  const std::string good = compute_products().results;
  CHECK(muster::compute::cuda::write_autotune_results(parse_autotune_results(good)) == good);
  const auto refused = [&good](const std::string& from, const std::string& to) {
    std::string text = good;
    text.replace(text.find(from), from.size(), to);
    CHECK_THROWS_AS(parse_autotune_results(text), std::runtime_error);
    CudaCompute on({});
    CHECK_THROWS_WITH(on.autotuner()->load(text),
                      Catch::Matchers::StartsWith("the algorithms of matrix products cannot be read: "));
  };
  refused("{", "[");
  refused("autotune 1", "autotune 2");
  refused("\"m\": 16", "\"m\": 16.5");
  refused("\"m\": 16", "\"m\": 4294967312");
  refused("\"bias\"", "\"bia\"");
  refused("\"algorithm\": \"0", "\"algorithm\": \"g");
  refused("\"gpu\"", "\"gpus\"");
  refused("\"chosen\": 2", "\"chosen\": 3");
}
