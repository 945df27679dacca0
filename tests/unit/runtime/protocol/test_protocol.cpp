// SPDX-License-Identifier: Apache-2.0
// The encoding of messages, and the dispatcher.
#include "catch.hpp"
#include "cbor.hpp"
#include "protocol/messages.hpp"

using namespace muster;
using namespace muster::protocol;
using namespace std::chrono_literals;

TEST_CASE("a message that was written as CBOR is read unchanged") {
  Contribution const sent{"round", {{0, 1, 4}}, 2, 5s, true, {1, 2, 3}};
  auto const read = decode<Contribution>(read_cbor(write_cbor(encode(sent)), "a message"));
  CHECK(read.name == sent.name);
  CHECK(read.members == sent.members);
  CHECK(read.root == sent.root);
  CHECK(read.wait == sent.wait);
  CHECK(read.last == sent.last);
  CHECK(read.blob == sent.blob);
  Survivors const survivors{{{0, {1}}, {7, {}}}};
  CHECK(decode<Survivors>(read_cbor(write_cbor(encode(survivors)), "a message")).payloads ==
        survivors.payloads);
}

TEST_CASE("when a field is missing or of another type, decoding throws") {
  auto const whole = encode(Put{"name", {1}});
  for (const char* field : {"name", "value"}) {
    auto cut = whole;
    cut.erase(field);
    CHECK_THROWS_AS(decode<Put>(cut), Message::exception);
    auto other = whole;
    other[field] = 7;
    CHECK_THROWS_AS(decode<Put>(other), Message::exception);
  }
  CHECK_THROWS_AS(type_of(Message(7)), Message::exception);
  CHECK_THROWS_AS(type_of(Message{{"type", 7}}), Message::exception);
}

TEST_CASE("when a number from another process is out of range, it is limited") {
  auto failure = encode(Failure{ErrorCode::usage, 1, "text"});
  failure["code"] = 4711;
  CHECK(decode<Failure>(failure).code == ErrorCode::system);
  failure["code"] = -1;
  CHECK(decode<Failure>(failure).code == static_cast<ErrorCode>(0));
  auto get = encode(Get{1, "x", 0ms});
  get["wait"] = std::numeric_limits<std::int64_t>::max();
  CHECK(decode<Get>(get).wait == Deadline(std::chrono::milliseconds::max()).length());
  get["wait"] = -1;
  CHECK(decode<Get>(get).wait == 0ms);
}

TEST_CASE("the dispatcher calls the handler of a message's type, and ignores an unknown type") {
  Dispatcher<int> dispatcher;
  std::string called;
  dispatcher.on<Put>([&](int rank, const Put& put) { called = put.name + std::to_string(rank); });
  CHECK(dispatcher.dispatch(3, encode(Put{"x", {}})));
  CHECK(called == "x3");
  CHECK_FALSE(dispatcher.dispatch(3, encode(ReadClocks{1})));
  CHECK_THROWS_AS(dispatcher.dispatch(3, Message{{"type", "put"}}), Message::exception);
}
