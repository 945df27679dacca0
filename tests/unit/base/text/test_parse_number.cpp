// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <string>

#include "catch.hpp"
#include "text/parse_number.hpp"

using namespace muster;

TEST_CASE("A number is the whole text and fits its type") {
  CHECK(parse_number<int>("-7") == -7);
  CHECK(parse_number<std::uint32_t>("ff", 16) == 255U);
  CHECK(parse_number<int>("007") == 7);
  for (const char* text : {"", " 1", "1 ", "+1", "0x1", "1.0", "99999999999"})
    CHECK_FALSE(parse_number<int>(text));
  CHECK_FALSE(parse_number<unsigned>("-1"));
}
