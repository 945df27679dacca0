// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <set>

#include "catch.hpp"
#include "communicator/mpi/mpi_tags.hpp"

using namespace muster;
using detail::CollectiveCall;
using detail::MpiTags;
using detail::OperationKind;

namespace {

CollectiveCall message(OperationKind kind, std::size_t count, DataType type, int peer) {
  return {.kind = kind, .count = count, .type = type, .peer = peer};
}

}  // namespace

TEST_CASE("tags stay within MPI's limit, and none is 0 or both a collective's and a message's") {
  int const limit =
      GENERATE(0x7fff, 0x7fffff, 0x7fffffff);  // MPI's guarantee; Open MPI with UCX, and without
  control::MessageCounters counts(2);
  MpiTags tags(counts, limit);
  std::set<int> collectives, messages;
  for (std::uint64_t i = 0; i < 1000; ++i) {
    collectives.insert(tags.collective(i * 0x9e3779b97f4a7c15));
    messages.insert(tags.next_send(message(OperationKind::send, i, DataType::float32, 1)));
  }
  for (const auto& all : {collectives, messages}) {
    CHECK(*all.begin() > 0);
    CHECK(*all.rbegin() <= limit);
  }
  for (int const tag : messages) CHECK_FALSE(collectives.contains(tag));
}

TEST_CASE("digests that differ have different tags, almost certainly") {
  control::MessageCounters counts(2);
  MpiTags const tags(counts, 0x7fffff);
  std::set<int> found;
  for (std::uint64_t i = 1; i <= 1000; ++i) found.insert(tags.collective(i * 0x9e3779b97f4a7c15));
  CHECK(found.size() > 990);
}

TEST_CASE("the n-th send to a rank has the tag of its n-th receive, unless type or count differ") {
  int const limit = GENERATE(0x7fff, 0x7fffff, 0x7fffffff);
  control::MessageCounters of_sender(3), of_receiver(3);
  MpiTags sender(of_sender, limit), receiver(of_receiver, limit);
  auto const send = message(OperationKind::send, 5, DataType::float32, 2);
  auto const recv = message(OperationKind::recv, 5, DataType::float32, 1);
  for (int i = 0; i < 600; ++i) REQUIRE(sender.next_send(send) == receiver.next_recv(recv));
  // Messages with another rank have numbers of their own.
  sender.next_send(message(OperationKind::send, 5, DataType::float32, 0));
  CHECK(sender.next_send(send) == receiver.next_recv(recv));

  auto const sent = sender.next_send(send);
  auto const expected = receiver.next_recv(message(OperationKind::recv, 5, DataType::int32, 1));
  CHECK(sent != expected);
  CHECK(receiver.describe_mismatch(sent, expected, 20) == "a send of 5 float32");
  CHECK(receiver.describe_mismatch(expected, expected, 20).empty());
  // The next message is not the counterpart.
  CHECK(receiver.describe_mismatch(sender.next_send(send), expected, 20).empty());
  CHECK(receiver.describe_mismatch(sender.collective(1), expected, 20).empty());
}

TEST_CASE("messages of different counts have different tags where MPI's tags have room for it") {
  control::MessageCounters of_sender(2), of_receiver(2);
  MpiTags sender(of_sender, 0x7fffffff), receiver(of_receiver, 0x7fffffff);
  auto const sent = sender.next_send(message(OperationKind::send, 5, DataType::float32, 1));
  auto const expected = receiver.next_recv(message(OperationKind::recv, 7, DataType::float32, 1));
  CHECK(sent != expected);
  CHECK(receiver.describe_mismatch(sent, expected, 20) == "a send of 5 float32");
}
