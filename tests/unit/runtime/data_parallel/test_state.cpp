// SPDX-License-Identifier: Apache-2.0
// broadcast_state() and averages over ranks, on as many ranks as the launcher started.
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "catch.hpp"
#include "runtime/scenarios/errors.hpp"
#include "runtime/scenarios/world.hpp"

using namespace muster;

namespace {

template <typename T>
concept CanBeAdded = requires(State& state, T& part) {
  state.add(part);
};
static_assert(CanBeAdded<SamplerPosition> && CanBeAdded<std::array<float, 3>> &&
              CanBeAdded<std::span<float, 3>>);
// Only their pointers would be copied.
static_assert(!CanBeAdded<int*> && !CanBeAdded<int* [2]> && !CanBeAdded<std::vector<int*>>);
static_assert(!CanBeAdded<std::string_view> && !CanBeAdded<std::span<SamplerPosition>> &&
              !CanBeAdded<std::span<const float>>);

}  // namespace

TEST_CASE("rank 0's state is copied to every rank, to the bit") {
  auto world = job().host_world();
  bool const first = world.rank() == 0;
  std::vector<float> large(50001), small(7);
  std::vector<std::uint16_t> resized;
  std::string text, empty = first ? "" : "not empty";
  std::int64_t counter = 0;
  SamplerPosition position;
  if (first) {
    std::uint32_t bits = 0x7f800001;  // signalling NaNs too
    for (auto& value : large) value = std::bit_cast<float>(bits += 12345);
    small.assign(7, 0.1f);
    resized = {1, 2, 65535};
    text = "a text of rank 0's";
    counter = -5;
    position = {1, 2, 3};
  }
  std::vector<float> const expected_large = large;
  State state;
  state.add(std::span<float>(large)).add(std::span<float>(small)).add(resized).add(text).add(empty);
  state.add(counter).add(position);
  broadcast_state(world, state);
  CHECK(small == std::vector<float>(7, 0.1f));
  CHECK(resized == std::vector<std::uint16_t>{1, 2, 65535});
  CHECK(text == "a text of rank 0's");
  CHECK(empty.empty());
  CHECK(counter == -5);
  CHECK(position == SamplerPosition{1, 2, 3});
  std::uint32_t bits = 0x7f800001;
  for (auto const value : large) REQUIRE(std::bit_cast<std::uint32_t>(value) == (bits += 12345));

  if (world.size() == 1) return;
  std::vector<float> shorter(first ? 3 : 4);
  CHECK(catch_error([&] { broadcast_state(world, State().add(std::span<float>(shorter))); }).code() ==
        ErrorCode::usage);
}

TEST_CASE("the memory of a span is copied, whether its extent is fixed or not") {
  auto world = job().host_world();
  auto const first = static_cast<float>(world.rank());
  std::array<float, 2> temporary{first, 1}, fixed{first, 2}, dynamic{first, 3};
  std::span const of_fixed(fixed);
  std::span<float> of_dynamic(dynamic);
  broadcast_state(world, State().add(std::span(temporary)).add(of_fixed).add(of_dynamic));
  CHECK(temporary == std::array<float, 2>{0, 1});
  CHECK(fixed == std::array<float, 2>{0, 2});
  CHECK(dynamic == std::array<float, 2>{0, 3});
  CHECK(of_fixed.data() == fixed.data());
}

TEST_CASE("averages over ranks are weighted, and ranks without samples do not count") {
  auto world = job().host_world();
  int const n = world.size();
  double const weight = world.rank();  // rank 0 has none
  double const mean = weighted_average(world, 10.0 * world.rank(), weight);
  double sum = 0, weights = 0;
  for (int r = 0; r < n; ++r) sum += 10.0 * r * r, weights += r;
  if (n > 1) CHECK(mean == Approx(sum / weights));
  if (n == 1) CHECK(std::isnan(mean));
  Average two[2];
  two[0].add(1);
  two[0].add(4, 2);
  two[1].add(world.rank());
  average_over_ranks(world, two);
  CHECK(two[0].value() == Approx(3));
  CHECK(two[0].weight == 3 * n);
  CHECK(two[1].value() == Approx((n - 1) / 2.0));
}
