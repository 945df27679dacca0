// SPDX-License-Identifier: Apache-2.0
// The float path (oneDNN where it was found, each instruction set, several threads) against double.
#include <cmath>

#include "catch.hpp"
#include "model_fixture.hpp"

using muster::compute::cpu::CpuCompute;
using muster::models::Gpt;
using muster::models::GptConfig;

namespace {

const GptConfig config{2, 4, 64, 48};
constexpr int batch = 3;

struct Result {
  double loss;
  std::vector<double> gradients;
};

template <typename Real>
Result run(muster::compute::Compute<Real>& compute) {
  Gpt<Real> model(config, batch, compute);
  initialize_boldly(model.tensors(), 3);
  const auto tokens = test_text(batch * 48, 1), targets = test_text(batch * 48, 2);
  Result result;
  result.loss = model.loss_and_gradients(tokens.data(), targets.data(), batch, 48, Real(1.0 / (batch * 48)));
  result.gradients.assign(model.tensors().gradients().begin(), model.tensors().gradients().end());
  return result;
}

double relative_distance(const double* a, const double* b, std::size_t count) {
  double difference = 0, size = 0;
  for (std::size_t i = 0; i < count; ++i) {
    difference += (a[i] - b[i]) * (a[i] - b[i]);
    size += b[i] * b[i];
  }
  return std::sqrt(difference / size);
}

}  // namespace

TEST_CASE("float agrees with double, tensor by tensor", "[precision]") {
  auto exact_compute = test_compute<double>();
  const Result exact = run(exact_compute);
  const auto table = muster::models::gpt_tensors(config);
  const auto check = [&](CpuCompute<float>::Options options) {
    CpuCompute<float> compute(options);
    const Result result = run(compute);
    CAPTURE(compute.describe());
    CHECK(result.loss == Approx(exact.loss).epsilon(1e-5));
    for (const auto& tensor : table.tensors) {
      CAPTURE(tensor.name);
      // Relative L2; float's 24 bits leave about 1e-6 after the sums of this model.
      CHECK(relative_distance(&result.gradients[tensor.offset], &exact.gradients[tensor.offset],
                              tensor.count) < 3e-5);
    }
  };
  SECTION("oneDNN") { check({1, true, nullptr}); }
  SECTION("two threads") { check({2, true, nullptr}); }
  for (const char* set : {"baseline", "avx2", "avx512"}) {
    const auto* kernels = muster::compute::cpu::kernels_named<float>(set);
    if (kernels) DYNAMIC_SECTION("own matrix product, " << set) {
        check({2, false, kernels});
      }
  }
}

TEST_CASE("threads do not change a bit without oneDNN", "[precision]") {
  CpuCompute<float> one({1, false, nullptr}), three({3, false, nullptr});
  const Result a = run(one), b = run(three);
  CHECK(a.loss == b.loss);
  CHECK(a.gradients == b.gradients);
}
