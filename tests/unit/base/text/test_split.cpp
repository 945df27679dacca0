// SPDX-License-Identifier: Apache-2.0
#include "catch.hpp"
#include "text/split.hpp"

using namespace muster;

TEST_CASE("A text is split at each separator, and empty parts stay") {
  using Parts = std::vector<std::string_view>;
  CHECK(split("a,,b", ',') == Parts{"a", "", "b"});
  CHECK(split("a,", ',') == Parts{"a", ""});
  CHECK(split("a,b", '/') == Parts{"a,b"});
  CHECK(split("", ',') == Parts{""});
}
