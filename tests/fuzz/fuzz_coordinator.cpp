// SPDX-License-Identifier: Apache-2.0
// The coordinator, with two broken ranks that have the job's key: a rank of its own host, and the leader of
// another host. Frames with an even sender come from the first, other frames from the second.
#include "broken_rank.hpp"
#include "control_plane/coordinator.hpp"

using namespace muster;
using namespace muster::control;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static Key const key = random_key();
  static Key const proof_key = purpose_key(key, purpose::control_plane, 0);
  static std::vector<int> const host_leaders{0, 0, 2, 2};
  std::vector<Hello> roster(4);
  for (int rank = 0; rank < 4; ++rank) roster[static_cast<std::size_t>(rank)].rank = rank;

  asio::io_context io;
  Coordinator* rank_0 = nullptr;
  auto const reply = [&](const Message& message) {
    if (protocol::type_of(message) != protocol::RankStateQuery::type) return;
    protocol::RankState state;
    state.id = message.at("id");
    asio::post(io, [&rank_0, state] { rank_0->handle(0, encode(state)); });
  };
  Coordinator coordinator(io, reply, roster, host_leaders, std::chrono::milliseconds{0});
  rank_0 = &coordinator;
  auto acceptor = std::make_unique<AuthenticatingAcceptor>(io);
  auto const port = acceptor->port();
  LocalListener listener;
  coordinator.open(std::move(acceptor), &listener, key, key);
  auto const neighbour = std::make_shared<fuzz::BrokenRank>(io, 1, proof_key);
  auto const other_host = std::make_shared<fuzz::BrokenRank>(io, 2, proof_key);
  for (const auto& frame : fuzz::parse_frames(data, size))
    (frame.from % 2 == 0 ? neighbour : other_host)->add(frame.bytes);
  neighbour->start(local_endpoint(listener.name()));
  other_host->start(tcp_endpoint(asio::ip::address_v4::loopback(), port));
  // Rank 0 makes the same call as all ranks.
  coordinator.handle(0, encode(protocol::Contribution{"b", nullptr, 0, std::chrono::seconds{5}, false, {}}));
  auto const until = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (!neighbour->is_over() || !other_host->is_over()) {
    if (std::chrono::steady_clock::now() > until) std::abort();
    io.restart();
    // Any message may close the rank's own connection. An exception out of here would end the control plane.
    io.run_one_for(std::chrono::milliseconds(100));
  }
  if (!neighbour->is_authenticated() || !other_host->is_authenticated()) std::abort();
  coordinator.close();
  io.restart();
  io.run();
  return 0;
}
