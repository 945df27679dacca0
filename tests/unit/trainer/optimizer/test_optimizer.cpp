// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <limits>

#include "catch.hpp"
#include "optimizer/optimizer.hpp"
#include "trainer/models/model_fixture.hpp"

using namespace muster;

namespace {

double compute_norm(muster::compute::UpdateCompute<double>& compute, const std::vector<double>& gradients) {
  return std::sqrt(compute.sum_of_squares(gradients.data(), gradients.size(), 0));
}

models::TensorTable two_tensors() {
  models::TensorTable table;
  table.tensors = {{"decayed", {2}, 0, 2, true, 0, 0}, {"plain", {2}, 16, 2, false, 0, 0}};
  table.arena_size = 32;
  table.parameter_count = 4;
  return table;
}

}  // namespace

TEST_CASE("AdamW follows its definition", "[optimizer]") {
  const auto table = two_tensors();
  auto compute = test_compute<double>();
  const OptimizerSettings settings{0.9, 0.95, 1e-8, 0.1, 0};
  Optimizer<double> optimizer(table, settings, compute);
  std::vector<double> parameters(32), gradients(32), expected(4), m(4), v(4);
  const std::size_t at[] = {0, 1, 16, 17};
  for (std::size_t i = 0; i < 4; ++i) parameters[at[i]] = expected[i] = 0.5 + static_cast<double>(i);
  for (int step = 0; step < 5; ++step) {
    for (std::size_t i = 0; i < 4; ++i) {
      const double g = gradients[at[i]] = std::sin(1.0 + static_cast<double>(i) + 3.0 * step);
      m[i] = 0.9 * m[i] + 0.1 * g;
      v[i] = 0.95 * v[i] + 0.05 * g * g;
      const double direction =
          m[i] / (1 - std::pow(0.9, step + 1)) / (std::sqrt(v[i] / (1 - std::pow(0.95, step + 1))) + 1e-8);
      expected[i] -= 0.01 * (direction + (i < 2 ? 0.1 * expected[i] : 0.0));
    }
    optimizer.update(parameters, gradients, compute_norm(compute, gradients), 0.01, step);
  }
  for (std::size_t i = 0; i < 4; ++i) CHECK(parameters[at[i]] == Approx(expected[i]).epsilon(1e-12));
  CHECK(parameters[2] == 0);  // gaps between tensors stay zero
}

TEST_CASE("SGD follows its definition, with and without Nesterov's momentum", "[optimizer]") {
  const auto table = two_tensors();
  auto compute = test_compute<double>();
  for (const bool nesterov : {false, true}) {
    OptimizerSettings settings;
    settings.kind = OptimizerKind::sgd;
    settings.momentum = 0.8;
    settings.nesterov = nesterov;
    settings.clip = 0;
    Optimizer<double> optimizer(table, settings, compute);
    std::vector<double> parameters(32), gradients(32), expected(4), v(4);
    const std::size_t at[] = {0, 1, 16, 17};
    for (std::size_t i = 0; i < 4; ++i) parameters[at[i]] = expected[i] = 0.5 + static_cast<double>(i);
    for (int step = 0; step < 5; ++step) {
      const double rate = step < 3 ? 0.1 : 0.01;  // not part of the momentum
      for (std::size_t i = 0; i < 4; ++i) {
        gradients[at[i]] = std::sin(1.0 + static_cast<double>(i) + 3.0 * step);
        const double g = gradients[at[i]] + (i < 2 ? 0.1 * expected[i] : 0.0);
        v[i] = 0.8 * v[i] + g;
        expected[i] -= rate * (nesterov ? g + 0.8 * v[i] : v[i]);
      }
      optimizer.update(parameters, gradients, compute_norm(compute, gradients), rate, step);
    }
    for (std::size_t i = 0; i < 4; ++i) CHECK(parameters[at[i]] == Approx(expected[i]).epsilon(1e-12));
    CHECK(optimizer.moment1()[17] == Approx(v[3]).epsilon(1e-12));
    CHECK(optimizer.moment2().empty());
    CHECK(parameters[2] == 0);
  }
}

TEST_CASE("the norm covers all elements, for any number of them", "[optimizer]") {
  auto compute = test_compute<double>();
  std::vector<double> gradients(50'001);
  double expected = 0;
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    gradients[i] = 1e-3 * static_cast<double>(i);
    expected += gradients[i] * gradients[i];
  }
  CHECK(compute_norm(compute, gradients) == Approx(std::sqrt(expected)).epsilon(1e-12));
}

TEST_CASE("clipping by the global norm", "[optimizer]") {
  const auto table = two_tensors();
  auto compute = test_compute<double>();
  OptimizerSettings settings;
  settings.clip = 1;
  Optimizer<double> clipped(table, settings, compute), scaled(table, settings, compute);
  std::vector<double> large(32), unit(32), a(32), b(32);
  large[0] = 30, large[17] = 40;
  unit[0] = 0.6, unit[17] = 0.8;
  CHECK(compute_norm(compute, large) == Approx(50));
  clipped.update(a, large, compute_norm(compute, large), 0.01, 0);
  scaled.update(b, unit, compute_norm(compute, unit), 0.01, 0);
  CHECK(clipped.moment1()[0] == Approx(scaled.moment1()[0]).epsilon(1e-12));
  CHECK(a[17] == Approx(b[17]).epsilon(1e-12));
  // A smaller norm is not clipped.
  Optimizer<double> unclipped(table, {0.9, 0.99, 1e-8, 0.1, 0}, compute), beneath(table, settings, compute);
  unit[0] = 0.3, unit[17] = 0.4;
  unclipped.update(a, unit, compute_norm(compute, unit), 0.01, 0);
  beneath.update(b, unit, compute_norm(compute, unit), 0.01, 0);
  CHECK(beneath.moment1()[0] == unclipped.moment1()[0]);
  CHECK(beneath.moment1()[0] == Approx(0.1 * 0.3).epsilon(1e-12));
  large[1] = std::numeric_limits<double>::quiet_NaN();
  CHECK_FALSE(std::isfinite(compute_norm(compute, large)));
}

TEST_CASE(
    "the parts of an arena are whole cache lines, each once, of nearly equal size, for any number of ranks",
    "[optimizer]") {
  for (const std::size_t size : {std::size_t{0}, std::size_t{16}, std::size_t{48}, std::size_t{16016}}) {
    for (const int ranks : {1, 2, 3, 7, 1000}) {
      CAPTURE(size, ranks);
      std::uint64_t next = 0, most = 0, least = size;
      for (int rank = 0; rank < ranks; ++rank) {
        const Share part = optimizer_part(size, rank, ranks);
        CHECK(part.begin == next);
        CHECK(part.begin % 16 == 0);
        next = part.end;
        most = std::max(most, part.count());
        least = std::min(least, part.count());
      }
      CHECK(next == size);
      CHECK(most - least <= 16);
    }
  }
}

TEST_CASE("an update in parts has the same bits as one of the whole arena", "[optimizer]") {
  const auto table = two_tensors();
  auto compute = test_compute<double>();
  std::vector<double> whole(32), parts(32), gradients(32);
  for (const std::size_t at : {0u, 1u, 16u, 17u}) whole[at] = parts[at] = gradients[at] = 0.3 + at;
  Optimizer<double> all(table, {}, compute), first(table, {}, compute, {0, 17}),
      second(table, {}, compute, {17, 32});
  CHECK(first.moment1().size() == 17);
  CHECK(second.moment2().size() == 15);
  for (int step = 0; step < 3; ++step) {
    const double norm = compute_norm(compute, gradients);
    all.update(whole, gradients, norm, 0.01, step);
    first.update(parts, gradients, norm, 0.01, step);
    CHECK(parts[17] != whole[17]);
    second.update(parts, gradients, norm, 0.01, step);
  }
  CHECK(parts == whole);
  CHECK(second.moment1()[0] == all.moment1()[17]);
}
