// SPDX-License-Identifier: Apache-2.0
#include "catch.hpp"
#include "muster/error.hpp"
#include "transport/frame_body.hpp"

using namespace muster;
using namespace muster::control;
using protocol::Message;
using Bytes = std::vector<std::uint8_t>;

TEST_CASE("a message is the same after its way, with and without byte strings") {
  Message message{{"type", "values"}, {"id", 7}, {"list", {1, "two", nullptr}}};
  CHECK(read_frame_body(write_frame_body(message)) == message);
  message["blobs"] = {Message::binary({1, 2, 3}), Message::binary({}), Message::binary(Bytes(70'000, 9))};
  message["message"] = {{"type", "inner"}, {"blob", Message::binary({4})}};
  CHECK(read_frame_body(write_frame_body(message)) == message);
}

TEST_CASE("a part of a message, and one with wrong lengths, are refused") {
  Message const message{{"a", Message::binary({1, 2, 3})}, {"b", {{"c", Message::binary({4, 5})}}}};
  auto const body = write_frame_body(message);
  for (std::size_t size = 0; size < body.size(); ++size)
    CHECK_THROWS_AS(read_frame_body(std::span(body.data(), size)), Error);
  auto longer = body;
  longer.push_back(0);
  CHECK_THROWS_AS(read_frame_body(longer), Error);
  auto long_header = body;
  long_header[4] = 0xff;
  CHECK_THROWS_AS(read_frame_body(long_header), Error);
  Bytes length_of_three_bytes{0, 4, 0, 0, 0, 0x43, 1, 0, 0, 5};
  CHECK_THROWS_AS(read_frame_body(length_of_three_bytes), Error);
}
