// SPDX-License-Identifier: Apache-2.0
#include <string>

#include "catch.hpp"
#include "job/invitation.hpp"
#include "muster/error.hpp"

using namespace muster;
using detail::Invitation;

TEST_CASE("an invitation survives its way as text") {
  Invitation sent{3, 5, {"10.0.0.7", "fe80::1"}, 1234, {}};
  for (std::size_t i = 0; i < sent.key.size(); ++i) sent.key[i] = static_cast<std::uint8_t>(255 - i);
  auto const got = Invitation::decode(sent.encode());
  CHECK(got.rank == 3);
  CHECK(got.size == 5);
  CHECK(got.addresses == sent.addresses);
  CHECK(got.port == 1234);
  CHECK(got.key == sent.key);
}

TEST_CASE("text that is no invitation is refused") {
  std::string const key(64, 'a');
  REQUIRE(Invitation::decode("1 2 3 " + key + " 10.0.0.7").port == 3);
  for (const std::string& text :
       {std::string(), "1 2 3 " + key, "2 2 3 " + key + " a", "-1 2 3 " + key + " a", "1 2 0 " + key + " a",
        "1 2 3 " + key.substr(2) + " a", "1 2 3 " + std::string(64, 'x') + " a", "1 2 70000 " + key + " a"}) {
    INFO(text);
    CHECK_THROWS_AS(Invitation::decode(text), Error);
  }
}
