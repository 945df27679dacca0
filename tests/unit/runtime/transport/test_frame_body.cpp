// SPDX-License-Identifier: Apache-2.0
#include "catch.hpp"
#include "muster/error.hpp"
#include "transport/frame_body.hpp"

using namespace muster;
using namespace muster::control;
using protocol::Message;

TEST_CASE(
    "a message with a payload is the same after its way, and any part of it is refused or another one") {
  Message message{{"type", "values"}, {"id", 7}};
  CHECK(read_frame_body(write_frame_body(message)) == message);
  message["payload"] = Message::binary({1, 2, 3});
  auto const body = write_frame_body(message);
  CHECK(read_frame_body(body) == message);
  for (std::size_t size = 0; size < body.size(); ++size) {
    std::span const part(body.data(), size);
    if (size + 3 >= body.size())
      CHECK(read_frame_body(part)["payload"].get_binary().size() == size + 3 - body.size());
    else
      CHECK_THROWS_AS(read_frame_body(part), Error);
  }
  auto longer = body;
  longer[4] = 0xff;
  CHECK_THROWS_AS(read_frame_body(longer), Error);
  std::vector<std::uint8_t> const number{0, 1, 0, 0, 0, 5};
  CHECK_THROWS_AS(read_frame_body(number), Error);
}
