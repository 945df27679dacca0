// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "failure/operation_tracker.hpp"
#include "muster/collective_call.hpp"

namespace muster::detail {

/// The MPI tags of one communicator's messages. Messages of calls that differ have different tags, so that a
/// receive takes only data of the same call: a rank that makes another call leaves the receive waiting, and
/// writes nothing into its buffer.
class MpiTags {
 public:
  /// `counts` outlives it. `tag_limit`: MPI's largest tag, a power of two minus one.
  MpiTags(control::MessageCounters& counts, int tag_limit) : tag_limit_(tag_limit), counts_(counts) {}

  /// Of the messages inside a collective call with this digest.
  int collective(std::uint64_t digest) const;
  /// Of the program's next send to a rank, and of its next receive from a rank. They are counted, so that
  /// the first send matches the first receive.
  int next_send(const CollectiveCall& send);
  int next_recv(const CollectiveCall& recv);

  /// If a message with the tag `found` is the counterpart of the receive with the tag `expected`, but has
  /// another type or count: "a send of 5 float32", from its length. Otherwise empty.
  std::string describe_mismatch(int found, int expected, std::size_t bytes) const;

 private:
  int next(const CollectiveCall& call, control::MessageCounters::Counters& counts);

  int tag_limit_;
  control::MessageCounters& counts_;
};

}  // namespace muster::detail
