// SPDX-License-Identifier: Apache-2.0
// The reducer on as many ranks as the launcher started, against plain references.
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <string>
#include <thread>
#include <type_traits>
#include <vector>

#include "catch.hpp"
#include "muster/reducer.hpp"
#include "random_gradient.hpp"
#include "runtime/scenarios/errors.hpp"
#include "runtime/scenarios/world.hpp"

using namespace muster;
using namespace std::chrono_literals;

namespace {

const std::vector<std::size_t> sizes{1000, 1, 0, 20001, 33, 4096, 5};

// The gradient of a chunk, or of a rank.
std::vector<float> make_gradient(std::uint64_t chunk, std::size_t parameter, std::uint64_t step) {
  return random_gradient(sizes[parameter], chunk, parameter, step);
}

void put(std::span<float> to, const std::vector<float>& values) {
  std::copy(values.begin(), values.end(), to.begin());
}

// A backward pass over this rank's chunks.
void compute(Reducer& reducer, std::uint64_t step) {
  for (auto chunk = reducer.chunks().begin; chunk < reducer.chunks().end; ++chunk) {
    for (std::size_t i = sizes.size(); i-- > 0;) {
      put(reducer.gradient(i), make_gradient(chunk, i, step));
      reducer.ready(i);
    }
  }
}

// The sum in double precision.
std::vector<double> reference_sum(std::uint64_t chunks, std::size_t parameter, std::uint64_t step,
                                  bool absolute = false) {
  std::vector<double> sum(sizes[parameter]);
  for (std::uint64_t chunk = 0; chunk < chunks; ++chunk) {
    auto const values = make_gradient(chunk, parameter, step);
    for (std::size_t i = 0; i < sum.size(); ++i)
      sum[i] += absolute ? std::abs(double{values[i]}) : double{values[i]};
  }
  return sum;
}

// The fixed tree, by its definition.
std::vector<float> reference_tree(int level, std::uint64_t index, std::uint64_t chunks, std::size_t parameter,
                                  std::uint64_t step) {
  if (level == 0) return make_gradient(index, parameter, step);
  auto left = reference_tree(level - 1, 2 * index, chunks, parameter, step);
  if ((2 * index + 1) << (level - 1) >= chunks) return left;
  auto const right = reference_tree(level - 1, 2 * index + 1, chunks, parameter, step);
  for (std::size_t i = 0; i < left.size(); ++i) left[i] += right[i];
  return left;
}

bool same_everywhere(Communicator& world, std::span<const float> values) {
  std::vector<float> from_rank_0(values.begin(), values.end());
  world.broadcast(std::span<float>(from_rank_0), 0);
  std::vector<std::int32_t> same{values.empty() ||
                                 std::memcmp(from_rank_0.data(), values.data(), values.size_bytes()) == 0};
  world.all_reduce(std::span<std::int32_t>(same), Reduction::min);
  return same[0] == 1;
}

// Ranks that share memory reduce in float32.
bool sends_bfloat16(const Communicator& world) {
  bool const share_memory = job().host_count() == 1 && std::getenv("MUSTER_SHARED_MEMORY") == nullptr;
  return world.size() > 1 && !share_memory;
}

}  // namespace

TEST_CASE("gradients are summed and averaged, in buckets of any size, overlapped or not") {
  auto world = job().host_world();
  auto const ranks = static_cast<std::uint64_t>(world.size());
  for (auto const reduction : {Reduction::average, Reduction::sum}) {
    for (std::size_t const bucket_bytes : {4ul, 20000ul, 100000000ul}) {
      for (bool const overlap : {true, false}) {
        Reducer reducer(world, sizes,
                        {.reduction = reduction, .bucket_bytes = bucket_bytes, .overlap = overlap});
        for (std::uint64_t step = 0; step < 3; ++step) {
          compute(reducer, step);
          reducer.finish();
          INFO("bucket of " << bucket_bytes << ", overlap " << overlap << ", step " << step);
          for (std::size_t p = 0; p < sizes.size(); ++p) {
            auto const sum = reference_sum(ranks, p, step);
            auto const bound = reference_sum(ranks, p, step, true);
            double const divisor = reduction == Reduction::average ? world.size() : 1;
            double worst = 0;
            for (std::size_t i = 0; i < sum.size(); ++i) {
              double const off = std::abs(double{reducer.gradient(p)[i]} - sum[i] / divisor);
              worst = std::max(worst, off / (bound[i] / divisor));
            }
            REQUIRE(worst < 1e-6);
            REQUIRE(same_everywhere(world, reducer.gradient(p)));
          }
          auto const statistics = reducer.last_step();
          CHECK(statistics.step == step + 1);
          CHECK(statistics.buckets == reducer.buckets());
          CHECK(statistics.bytes == 25136 * sizeof(float));
          CHECK(statistics.communication >= 0);
          CHECK(statistics.exposed >= 0);
        }
      }
    }
  }
}

// Number of all-reduces that this rank has completed.
std::uint64_t completed_all_reduces() {
  auto const metrics = job().metrics();
  std::uint64_t calls = 0;
  for (const auto& one : metrics.operations)
    if (one.operation == "all_reduce") calls = one.calls;
  return metrics.last.operation == "all_reduce" && !metrics.last.over ? calls - 1 : calls;
}

TEST_CASE("a bucket is reduced while the backward pass goes on") {
  auto world = job().host_world();
  if (world.size() == 1) return;  // nothing to reduce
  for (bool const overlap : {true, false}) {
    Reducer reducer(world, std::vector<std::size_t>{10, 10, 10}, {.bucket_bytes = 4, .overlap = overlap});
    REQUIRE(reducer.buckets() == 3);
    for (int step = 0; step < 2; ++step) {
      auto const before = completed_all_reduces();
      // Simulates the rest of the backward pass on every rank: waits, without a call of the reducer, until
      // the buckets that are ready are reduced.
      for (std::size_t i = 3; i-- > 0;) {
        reducer.ready(i);
        auto const expected = before + (overlap ? 3 - i : 0);
        auto const until = std::chrono::steady_clock::now() + (overlap ? 20s : 50ms);
        while (std::chrono::steady_clock::now() < until && (!overlap || completed_all_reduces() < expected))
          std::this_thread::sleep_for(1ms);
        CHECK(completed_all_reduces() == expected);
      }
      reducer.finish();
      CHECK(completed_all_reduces() == before + 3);
    }
  }
}

TEST_CASE("the caller's memory is reduced in place, or through a copy if it is scattered") {
  auto world = job().host_world();
  auto const ranks = static_cast<std::uint64_t>(world.size());
  std::vector<std::vector<float>> scattered;
  std::vector<std::span<float>> gradients;
  for (auto const size : sizes) scattered.emplace_back(size + 1, -7.0f);
  for (std::size_t i = 0; i < sizes.size(); ++i) gradients.push_back(std::span(scattered[i]).first(sizes[i]));
  Reducer reducer(world, gradients, {.reduction = Reduction::sum, .bucket_bytes = 1u << 20});
  CHECK(reducer.buckets() == 1);
  // In an unusual order, and while the communicator is in use.
  for (std::size_t const i : {2, 0, 6, 5, 1, 3, 4}) {
    put(reducer.gradient(i), make_gradient(reducer.chunks().begin, i, 9));
    reducer.ready(i);
  }
  world.barrier();
  reducer.finish();
  for (std::size_t p = 0; p < sizes.size(); ++p) {
    auto const sum = reference_sum(ranks, p, 9);
    auto const bound = reference_sum(ranks, p, 9, true);
    double worst = 0;
    for (std::size_t i = 0; i < sum.size(); ++i)
      worst = std::max(worst, std::abs(double{scattered[p][i]} - sum[i]) / bound[i]);
    CHECK(worst < 1e-6);
    CHECK(scattered[p].back() == -7.0f);
  }
}

TEST_CASE("bfloat16 gradients stay within the documented error bound") {
  auto world = job().host_world();
  auto const ranks = static_cast<std::uint64_t>(world.size());
  Reducer reducer(world, sizes, {.reduction = Reduction::average, .bucket_bytes = 30000, .bfloat16 = true});
  for (std::uint64_t step = 0; step < 2; ++step) {
    compute(reducer, step);
    reducer.finish();
    for (std::size_t p = 0; p < sizes.size(); ++p) {
      auto const sum = reference_sum(ranks, p, step);
      auto const all = reference_sum(ranks, p, step, true);
      double const u = 0x1p-8, n = world.size();
      double worst = 0;
      for (std::size_t i = 0; i < sum.size() && world.size() > 1; ++i) {
        double const result = reducer.gradient(p)[i];
        double const bound = (u * all[i] + (n - 1) * 0x1p-24 * (1 + u) * all[i]) / n + u * std::abs(result);
        worst = std::max(worst, std::abs(result - sum[i] / n) / bound);
      }
      REQUIRE(worst <= 1);
      // The error comes near the bound, so the gradients were really sent in bfloat16.
      if (sends_bfloat16(world) && sum.size() > 1000) REQUIRE(worst > 0.3);
      REQUIRE(same_everywhere(world, reducer.gradient(p)));
    }
  }
  CHECK(reducer.last_step().bytes == 25136 * (world.size() == 1 || sends_bfloat16(world) ? 2 : 4));
}

TEST_CASE("float64 gradients are added in float64") {
  auto world = job().host_world();
  auto const ranks = static_cast<std::uint64_t>(world.size());
  for (bool const own_memory : {true, false}) {
    std::vector<std::vector<double>> scattered;
    std::vector<std::span<double>> gradients;
    for (auto const size : sizes) scattered.emplace_back(size);
    for (auto& gradient : scattered) gradients.emplace_back(gradient);
    ReducerOptions const options{.bucket_bytes = 30000, .type = DataType::float64};
    auto reducer = own_memory ? Reducer(world, sizes, options) : Reducer(world, gradients, options);
    for (std::size_t p = sizes.size(); p-- > 0;) {
      auto const values = make_gradient(reducer.chunks().begin, p, 0);
      std::copy(values.begin(), values.end(), reducer.gradient<double>(p).begin());
      reducer.ready(p);
    }
    reducer.finish();
    for (std::size_t p = 0; p < sizes.size(); ++p) {
      auto const sum = reference_sum(ranks, p, 0);
      auto const bound = reference_sum(ranks, p, 0, true);
      double worst = 0;
      for (std::size_t i = 0; i < sum.size(); ++i)
        worst = std::max(worst, std::abs(reducer.gradient<double>(p)[i] * world.size() - sum[i]) / bound[i]);
      REQUIRE(worst < 1e-14);
    }
    CHECK(reducer.last_step().bytes == 25136 * sizeof(double));
  }
}

TEST_CASE("bfloat16 gradients are added in float32 and rounded once") {
  auto world = job().host_world();
  auto const ranks = static_cast<std::uint64_t>(world.size());
  Reducer reducer(world, sizes,
                  {.reduction = Reduction::sum, .bucket_bytes = 30000, .type = DataType::bfloat16});
  auto const gradient = [](std::uint64_t rank, std::size_t p) {
    std::vector<bfloat16> rounded;
    for (auto const value : make_gradient(rank, p, 0)) rounded.emplace_back(value);
    return rounded;
  };
  for (std::size_t p = sizes.size(); p-- > 0;) {
    auto const values = gradient(reducer.chunks().begin, p);
    std::copy(values.begin(), values.end(), reducer.gradient<bfloat16>(p).begin());
    reducer.ready(p);
  }
  reducer.finish();
  for (std::size_t p = 0; p < sizes.size(); ++p) {
    std::vector<float> sum(sizes[p]);
    for (std::uint64_t rank = 0; rank < ranks; ++rank) {
      auto const values = gradient(rank, p);
      for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += static_cast<float>(values[i]);
    }
    for (std::size_t i = 0; i < sum.size(); ++i)
      REQUIRE(reducer.gradient<bfloat16>(p)[i].bits == bfloat16(sum[i]).bits);
  }
  CHECK(reducer.last_step().bytes == 25136 * 2);
}

TEST_CASE("float32 gradients that are sent as bfloat16 are rounded, added in rank order, and rounded") {
  auto world = job().host_world();
  auto const ranks = static_cast<std::uint64_t>(world.size());
  bool const rounds = sends_bfloat16(world);
  for (bool const own_memory : {true, false}) {
    std::vector<std::vector<float>> scattered;
    std::vector<std::span<float>> gradients;
    for (auto const size : sizes) scattered.emplace_back(size);
    for (auto& gradient : scattered) gradients.emplace_back(gradient);
    ReducerOptions const options{.reduction = Reduction::sum, .bucket_bytes = 30000, .bfloat16 = true};
    auto reducer = own_memory ? Reducer(world, sizes, options) : Reducer(world, gradients, options);
    compute(reducer, 3);
    reducer.finish();
    for (std::size_t p = 0; p < sizes.size(); ++p) {
      std::vector<float> sum(sizes[p]);
      for (std::uint64_t rank = 0; rank < ranks; ++rank) {
        auto const values = make_gradient(rank, p, 3);
        for (std::size_t i = 0; i < sum.size(); ++i)
          sum[i] += rounds ? static_cast<float>(bfloat16(values[i])) : values[i];
      }
      for (std::size_t i = 0; i < sum.size(); ++i)
        REQUIRE(reducer.gradient(p)[i] == (rounds ? static_cast<float>(bfloat16(sum[i])) : sum[i]));
    }
  }
}

TEST_CASE("the deterministic mode gives the bits of the tree over chunks, whatever the number of ranks") {
  auto world = job().host_world();
  for (std::uint64_t const chunks : {1ull, 2ull, 3ull, 7ull, 8ull, 12ull}) {
    for (auto const reduction : {Reduction::sum, Reduction::average}) {
      Reducer reducer(world, sizes, {.reduction = reduction, .bucket_bytes = 16000, .chunks = chunks});
      for (std::uint64_t step = 0; step < 2; ++step) {
        compute(reducer, step);
        reducer.finish();
        int height = 0;
        while (std::uint64_t{1} << height < chunks) ++height;
        for (std::size_t p = 0; p < sizes.size(); ++p) {
          auto expected = reference_tree(height, 0, chunks, p, step);
          if (reduction == Reduction::average)
            for (auto& value : expected) value /= static_cast<float>(chunks);
          INFO(chunks << " chunks, parameter " << p << ", step " << step);
          REQUIRE((expected.empty() || std::memcmp(expected.data(), reducer.gradient(p).data(),
                                                   expected.size() * sizeof(float)) == 0));
        }
      }
    }
  }
}

TEST_CASE("a bucket's size is measured, unless MUSTER_BUCKET_BYTES of rank 0 sets it") {
  auto world = job().host_world();
  std::vector<std::size_t> const many(200, 5000);
  Reducer const measured(world, many);
  CHECK(measured.bucket_bytes() > 0);
  CHECK(measured.bucket_bytes() <= 200 * 5000 * sizeof(float));
  std::vector<std::uint64_t> bytes{measured.bucket_bytes()};
  world.all_reduce(std::span<std::uint64_t>(bytes), Reduction::max);
  CHECK(bytes[0] == measured.bucket_bytes());

  setenv("MUSTER_BUCKET_BYTES", world.rank() == 0 ? "40000" : "7", 1);
  Reducer const chosen(world, many, {.bucket_bytes = 20000});
  CHECK(chosen.bucket_bytes() == 40000);
  CHECK(chosen.buckets() == 100);
  setenv("MUSTER_BUCKET_BYTES", "many", 1);
  auto const error = catch_error([&] { Reducer(world, many); });
  CHECK(error.code() == ErrorCode::usage);
  CHECK(error.reported_elsewhere() == (world.rank() != 0));
  unsetenv("MUSTER_BUCKET_BYTES");
}

// Gradients are float32, float64 or bfloat16: another type does not compile.
template <typename T>
constexpr bool reduces_gradients_of =
    std::is_constructible_v<Reducer, const Communicator&, const std::vector<std::span<T>>&>;
static_assert(reduces_gradients_of<float> && reduces_gradients_of<double> && reduces_gradients_of<bfloat16>);
static_assert(!reduces_gradients_of<half> && !reduces_gradients_of<std::int32_t>);

TEST_CASE("a reducer rejects invalid arguments, on every rank") {
  auto world = job().host_world();
  CHECK(catch_error_code([&] { Reducer(world, std::vector<std::size_t>{}); }) == ErrorCode::usage);
  CHECK(catch_error_code([&] { Reducer(world, sizes, {.reduction = Reduction::max}); }) == ErrorCode::usage);
  CHECK(catch_error_code([&] { Reducer(world, sizes, {.bfloat16 = true, .chunks = 4}); }) ==
        ErrorCode::usage);
  CHECK(catch_error_code([&] { Reducer(world, sizes, {.type = DataType::int32}); }) == ErrorCode::usage);
  for (auto const type : {DataType::float64, DataType::bfloat16})
    CHECK(catch_error_code([&] { Reducer(world, sizes, {.chunks = 4, .type = type}); }) == ErrorCode::usage);
  CHECK(catch_error_code([&] { Reducer(world, sizes, {.bfloat16 = true, .type = DataType::float64}); }) ==
        ErrorCode::usage);
  if (world.size() > 1) {
    auto const error = catch_error(
        [&] { Reducer(world, std::vector<std::size_t>{world.rank() == world.size() - 1 ? 4ul : 3ul}); });
    CHECK(std::string(error.what()).find("rank " + std::to_string(world.size() - 1)) != std::string::npos);
    CHECK(error.reported_elsewhere() == (world.rank() != 0));
  }
  Reducer reducer(world, std::vector<std::size_t>{3, 4}, {.bucket_bytes = 1});
  reducer.ready(1);
  CHECK(catch_error_code([&] { reducer.ready(1); }) == ErrorCode::usage);
  CHECK(catch_error_code([&] { reducer.ready(2); }) == ErrorCode::usage);
  CHECK(catch_error_code([&] { (void)reducer.gradient(2); }) == ErrorCode::usage);
  CHECK(std::string(catch_error([&] { (void)reducer.gradient<double>(0); }).what()) ==
        "reducer: the gradients are float32, not float64");
  CHECK(std::string(catch_error([&] { reducer.finish(); }).what()).find("parameter 0") != std::string::npos);
  reducer.ready(0);
  reducer.finish();
  reducer.ready(0);
  reducer.ready(1);
  reducer.finish();
}

TEST_CASE("when an exception destroys a reducer, it does not wait for its peers") {
  auto world = job().host_world();
  if (world.size() == 1) return;
  try {
    Reducer reducer(world, std::vector<std::size_t>{100}, {.bucket_bytes = 1});
    if (world.rank() == 0) {
      reducer.ready(0);
      throw std::runtime_error("the program's own reason");
    }
  } catch (const std::runtime_error&) {
  }
  world.barrier();
}
