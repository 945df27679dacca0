// SPDX-License-Identifier: Apache-2.0
// The rendezvous client with a broken rank 0.
#include "broken_coordinator.hpp"
#include "rendezvous/rendezvous.hpp"

using namespace muster;
using namespace muster::bootstrap;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static control::Key const key = control::random_key();
  static auto& broken_rank0 = *new fuzz::BrokenLeader(key, control::purpose::rendezvous);
  std::vector<fuzz::Bytes> messages;
  for (const auto& frame : fuzz::parse_frames(data, size))
    messages.emplace_back(frame.bytes.begin(), frame.bytes.end());
  broken_rank0.set_messages(std::move(messages));
  RendezvousConfig config;
  config.name = "fuzz";
  config.rank = 1;
  config.size = 2;
  config.local_name = control::local_name(key);
  config.key = key;
  JoinRecord mine;
  mine.hello.rank = 1;
  try {
    auto const records = run_rendezvous_client(config, mine, Deadline(std::chrono::seconds(20)));
    if (records.size() != 2) std::abort();
  } catch (const Error& error) {
    if (error.code() == ErrorCode::deadline) std::abort();
  }
  return 0;
}
