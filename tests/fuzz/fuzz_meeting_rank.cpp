// SPDX-License-Identifier: Apache-2.0
// A rank that joins without PMIx, at a broken rank 0.
#include "broken_leader.hpp"
#include "rendezvous/rendezvous.hpp"

using namespace muster;
using namespace muster::bootstrap;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static control::Key const key = control::random_key();
  static auto& rank_0 = *new fuzz::BrokenLeader(key);
  std::vector<fuzz::Bytes> messages;
  for (const auto& frame : fuzz::frames_in(data, size))
    messages.emplace_back(frame.bytes.begin(), frame.bytes.end());
  rank_0.say(std::move(messages));
  RendezvousConfig plan;
  plan.name = "fuzz";
  plan.rank = 1;
  plan.size = 2;
  plan.local_name = control::local_name(key, 0);
  plan.key = key;
  JoinRecord mine;
  mine.hello.rank = 1;
  try {
    auto const records = come_to_meeting(plan, mine, Deadline(std::chrono::seconds(20)));
    if (records.size() != 2) std::abort();
  } catch (const Error& error) {
    if (error.code() == ErrorCode::deadline) std::abort();
  }
  return 0;
}
