// SPDX-License-Identifier: Apache-2.0
// A rank's control plane with a broken rank 0. The first byte decides whether the rank is its host's leader
// or rank 0 is.
#include "broken_coordinator.hpp"
#include "cbor.hpp"
#include "control_plane/control_plane.hpp"

using namespace muster;
using namespace muster::control;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  static Key const key = random_key();
  static auto& rank_0 = *new fuzz::BrokenLeader(key, purpose::control_plane);
  bool const is_leader = data[0] % 2 == 1;
  std::vector<Hello> roster(3);
  for (int rank = 0; rank < 3; ++rank) roster[static_cast<std::size_t>(rank)].rank = rank;
  std::vector<fuzz::Bytes> messages;
  for (const auto& frame : fuzz::parse_frames(data + 1, size - 1))
    messages.emplace_back(frame.bytes.begin(), frame.bytes.end());
  messages.push_back(write_cbor(encode(Failure{ErrorCode::lost_rank, 1, "the fuzzer's last message"})));
  rank_0.set_messages(std::move(messages));

  std::chrono::seconds const timeout{20};
  ControlPlaneOptions options{roster, is_leader ? std::vector<int>{0, 1, 1} : std::vector<int>{0, 0, 0},
                              std::chrono::milliseconds{0}};
  options.local_sockets.assign(roster.size(), local_name(key));
  options.listener = std::make_shared<LocalListener>();
  auto const plane =
      ControlPlane::connect(1, std::move(options), {"127.0.0.1"}, rank_0.port(), key, Deadline(timeout));
  auto const state = plane->register_communicator("world");
  state->set_wait_group({0, 1, 2}, nullptr, 1);
  state->enter("all_reduce");
  state->inside = true;
  try {
    plane->get("x", timeout);
    plane->gather("b", {0, 1}, {}, timeout);
    plane->broadcast("c", {0, 1}, 0, {}, timeout);
  } catch (const Error& error) {
    if (error.code() == ErrorCode::deadline &&
        std::string(error.what()).find("does not answer") != std::string::npos)
      std::abort();
  }
  plane->abort_connections();
  return 0;
}
