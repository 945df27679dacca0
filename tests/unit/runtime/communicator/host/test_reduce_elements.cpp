// SPDX-License-Identifier: Apache-2.0
// The reduction loops, compared with a reduction of one element at a time.
#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

#include "catch.hpp"
#include "communicator/host/float16_convert.hpp"
#include "communicator/host/reduce_elements.hpp"
#include "float16_bits.hpp"
#include "runtime/communicator/reference.hpp"

using namespace muster;
using namespace muster::detail;

namespace {

bool same(float a, float b) { return std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b); }

// Converts every 16-bit pattern to float and back, and values between the patterns.
template <typename Widen, typename Narrow, typename Value, typename Bits>
void check_conversions(Widen widen, Narrow narrow, Value value, Bits bits) {
  std::vector<std::uint16_t> all(65536 + 3);
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<std::uint16_t>(i);
  std::vector<float> wide(all.size());
  widen(all.data(), wide.data(), all.size());
  std::mt19937 random(7);
  std::vector<float> values = wide;
  for (std::size_t i = 0; i < all.size(); ++i) {
    float const expected = value(all[i]);
    if (std::isnan(expected) ? !std::isnan(wide[i]) : !same(wide[i], expected)) FAIL("pattern " << i);
    values.push_back(std::bit_cast<float>(static_cast<std::uint32_t>(random())));
    values.push_back((wide[i] + wide[(i + 1) % 65536]) / 2);  // halfway
  }
  std::vector<std::uint16_t> narrowed(values.size());
  narrow(values.data(), narrowed.data(), values.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (std::isnan(values[i]) ? !std::isnan(value(narrowed[i])) : narrowed[i] != bits(values[i]))
      FAIL("value " << values[i] << " became " << narrowed[i]);
  }
}

}  // namespace

TEST_CASE("arrays of 16-bit floats convert like single values") {
  check_conversions(bfloat16_to_float, float_to_bfloat16, bfloat16_value, bfloat16_bits);
  check_conversions(half_to_float, float_to_half, half_value, half_bits);
}

TEMPLATE_TEST_CASE("the result may replace any of the operands", "", float, double, bfloat16, half,
                   std::int8_t, std::uint8_t, std::int32_t, std::uint32_t, std::int64_t, std::uint64_t) {
  using T = TestType;
  for (auto const op : reference::all_reductions) {
    for (std::size_t const count : {1u, 511u, 512u, 513u, 3000u}) {
      for (std::size_t place = 0; place < 3; ++place) {
        std::vector<std::vector<T>> values;
        for (int r = 0; r < 3; ++r) values.push_back(reference::operands<T>(r, count, op));
        const void* const operands[] = {values[0].data(), values[1].data(), values[2].data()};
        reduce_elements(values[place].data(), operands, count, DataTypeOf<T>::value, op, 3);
        REQUIRE(reference::same_numbers(values[place], reference::reduced<T>(3, count, op)));
      }
    }
  }
}

TEST_CASE("integers wrap around, and 16-bit floats round once for all operands") {
  std::vector<std::int8_t> const bytes{100, -100};
  std::vector<std::int8_t> out(2);
  const void* const twice[] = {bytes.data(), bytes.data()};
  reduce_elements(out.data(), twice, 2, DataType::int8, Reduction::sum, 2);
  CHECK(out == std::vector<std::int8_t>{-56, 56});
  // 256 + 0.5 + 0.5 + 1 = 258 is a bfloat16; rounded at each step it would stay 256.
  std::vector<bfloat16> const parts{bfloat16(256.0f), bfloat16(0.5f), bfloat16(0.5f), bfloat16(1.0f)};
  bfloat16 sum;
  const void* const four[] = {&parts[0], &parts[1], &parts[2], &parts[3]};
  reduce_elements(&sum, four, 1, DataType::bfloat16, Reduction::sum, 4);
  CHECK(static_cast<float>(sum) == 258.0f);
}
