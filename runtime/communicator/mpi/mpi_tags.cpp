// SPDX-License-Identifier: Apache-2.0
#include "communicator/mpi/mpi_tags.hpp"

#include <fmt/format.h>

namespace muster::detail {
namespace {

// The lowest bit tells the two kinds apart. A collective's tag has the second bit, so that it is not 0, and
// the digest. A message's tag has the type, then its number, then a hash of the count: as many bits as there
// are. MPI guarantees 15, Open MPI has 23 with UCX and 31 otherwise.
constexpr int message_bit = 1;
constexpr int collective_bit = 2;
constexpr int type_shift = 1;
constexpr int type_mask = 0xf;
constexpr int sequence_shift = 5;
constexpr int sequence_mask = 0xff;
constexpr int count_shift = 13;

constexpr std::uint64_t odd_multiplier = 0x9e3779b97f4a7c15;

}  // namespace

int MpiTags::collective(std::uint64_t digest) const {
  // The upper bits depend on every argument.
  return (static_cast<int>(digest >> 33) & tag_limit_ & ~message_bit) | collective_bit;
}

// A tag has the last bits of the number.
int MpiTags::next(const CollectiveCall& call, control::MessageCounters::Counters& counts) {
  auto& begun = counts[static_cast<std::size_t>(call.peer)];
  auto const sequence = begun.load(std::memory_order_relaxed);
  begun.store(sequence + 1, std::memory_order_release);
  auto const count = call.count * odd_multiplier >> 33;
  auto const tag = message_bit | static_cast<std::uint64_t>(call.type) << type_shift |
                   static_cast<std::uint64_t>(sequence & sequence_mask) << sequence_shift |
                   count << count_shift;
  return static_cast<int>(tag & static_cast<std::uint64_t>(tag_limit_));
}

int MpiTags::next_send(const CollectiveCall& send) { return next(send, counts_.sent); }
int MpiTags::next_recv(const CollectiveCall& recv) { return next(recv, counts_.received); }

std::string MpiTags::describe_mismatch(int found, int expected, std::size_t bytes) const {
  constexpr int which = message_bit | sequence_mask << sequence_shift;
  if (found == expected || (found & which) != (expected & which)) return "";
  auto const type = static_cast<DataType>(found >> type_shift & type_mask);
  return fmt::format("a send of {} {}", bytes / size_of(type), name_of(type));
}

}  // namespace muster::detail
