// SPDX-License-Identifier: Apache-2.0
// Rank 0 of the control plane, spoken to by ranks that have the job's key and are broken: one of its own
// host, and another host's leader. Frames of an even sender come from the first, the others from the second.
#include "broken_rank.hpp"
#include "control_plane/coordinator.hpp"

using namespace muster;
using namespace muster::control;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static Key const key = random_key();
  static std::vector<int> const leader_of{0, 0, 2, 2};
  std::vector<Hello> roster(4);
  for (int rank = 0; rank < 4; ++rank) roster[static_cast<std::size_t>(rank)].rank = rank;

  asio::io_context io;
  Leader leader(io, [](const Message& message) { message.at("is").get<std::string>(); });
  leader.open(roster, leader_of, key, std::chrono::milliseconds{0});
  auto const neighbour = std::make_shared<fuzz::BrokenRank>(io, 1, key);
  auto const other_host = std::make_shared<fuzz::BrokenRank>(io, 2, key);
  for (const auto& frame : fuzz::frames_in(data, size))
    (frame.from % 2 == 0 ? neighbour : other_host)->add(frame.bytes);
  neighbour->start(local_endpoint(local_name(key, 0)));
  other_host->start(tcp_endpoint(asio::ip::address_v4::loopback(), leader.port()));
  // Rank 0 makes the same calls as everybody.
  leader.handle(0, {{"is", "arrive"},
                    {"name", "b"},
                    {"root", 0},
                    {"ms", 5000},
                    {"last", false},
                    {"blob", Message::binary({})}});
  auto const until = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (!neighbour->is_over() || !other_host->is_over()) {
    if (std::chrono::steady_clock::now() > until) std::abort();
    io.restart();
    // Whatever a rank says may end its own connection; an exception that comes out here ends the whole plane.
    io.run_one_for(std::chrono::milliseconds(100));
  }
  if (!neighbour->is_in() || !other_host->is_in()) std::abort();
  leader.close();
  io.restart();
  io.run();
  return 0;
}
