// SPDX-License-Identifier: Apache-2.0
#include <bit>
#include <cmath>
#include <limits>

#include "catch.hpp"
#include "muster/muster.hpp"

using muster::bfloat16;
using muster::half;

namespace {

half half_from_bits(unsigned bits) {
  half value;
  value.bits = static_cast<std::uint16_t>(bits);
  return value;
}

// binary16 by its definition (IEEE 754-2019, 3.4), independent of the code under test.
double decode_half(unsigned bits) {
  int const exponent = static_cast<int>((bits >> 10) & 31u);
  double const mantissa = bits & 1023u;
  double const magnitude =
      exponent == 0 ? std::ldexp(mantissa, -24) : std::ldexp(1024 + mantissa, exponent - 25);
  return (bits & 0x8000u) != 0 ? -magnitude : magnitude;
}

}  // namespace

TEST_CASE("every half converts to float exactly and back to itself") {
  for (unsigned bits = 0; bits < 65536; ++bits) {
    float const value = static_cast<float>(half_from_bits(bits));
    if ((bits & 0x7c00u) == 0x7c00u) {
      if ((bits & 1023u) == 0) {
        REQUIRE((std::isinf(value) && std::signbit(value) == ((bits & 0x8000u) != 0)));
      } else {
        REQUIRE(std::isnan(value));
        REQUIRE(std::isnan(static_cast<float>(half(value))));
        continue;
      }
    } else if (static_cast<double>(value) != decode_half(bits)) {
      FAIL("half " << bits << " became " << value);
    }
    if (half(value).bits != bits) FAIL("half " << bits << " came back as " << half(value).bits);
  }
}

TEST_CASE("float rounds to the nearest half, ties to even, at every boundary") {
  // Between two neighbours all floats below the middle round down and all above round up, so it is enough to
  // test the three floats around each middle.
  for (unsigned bits = 0; bits < 0x7bffu; ++bits) {
    double const middle = (decode_half(bits) + decode_half(bits + 1)) / 2;
    auto const at = static_cast<float>(middle);
    if (static_cast<double>(at) != middle) FAIL("the middle after " << bits << " is no float");
    unsigned const even = (bits & 1u) != 0 ? bits + 1 : bits;
    bool const right = half(at).bits == even && half(std::nextafter(at, 0.0f)).bits == bits &&
                       half(std::nextafter(at, 1e9f)).bits == bits + 1 && half(-at).bits == (even | 0x8000u);
    if (!right) FAIL("rounding around the middle after half " << bits);
  }
  REQUIRE(half(65504.0f).bits == 0x7bff);
  REQUIRE(half(std::nextafter(65520.0f, 0.0f)).bits == 0x7bff);
  REQUIRE(half(65520.0f).bits == 0x7c00);
  REQUIRE(half(std::numeric_limits<float>::max()).bits == 0x7c00);
  REQUIRE(half(-1e30f).bits == 0xfc00);
  REQUIRE(half(std::numeric_limits<float>::denorm_min()).bits == 0);
  REQUIRE(half(-0.0f).bits == 0x8000);
}

TEST_CASE("float rounds to the nearest bfloat16, ties to even, at every boundary") {
  for (std::uint32_t bits = 0; bits < 0x7f80u; ++bits) {
    std::uint32_t const low = bits << 16;
    std::uint32_t const middle = low + 0x8000u;
    std::uint32_t const even = (bits & 1u) != 0 ? bits + 1 : bits;
    auto const rounded = [](std::uint32_t of) {
      return std::uint32_t{bfloat16(std::bit_cast<float>(of)).bits};
    };
    bool const right = rounded(low) == bits && rounded(middle - 1) == bits && rounded(middle) == even &&
                       rounded(middle + 1) == bits + 1 && rounded(middle | 0x80000000u) == (even | 0x8000u);
    if (!right) FAIL("rounding after bfloat16 " << bits);
  }
  REQUIRE(std::isnan(static_cast<float>(bfloat16(std::numeric_limits<float>::quiet_NaN()))));
  // A NaN whose set bits all lie in the lower half must not become infinity.
  REQUIRE(std::isnan(static_cast<float>(bfloat16(std::bit_cast<float>(0x7f800001u)))));
  REQUIRE(static_cast<float>(bfloat16(1.5f)) == 1.5f);
}

TEST_CASE("names and sizes of types") {
  REQUIRE(muster::size_of(muster::DataType::bfloat16) == 2);
  REQUIRE(muster::size_of(muster::DataType::uint64) == 8);
  REQUIRE(std::string(muster::name_of(muster::DataType::float16)) == "float16");
}
