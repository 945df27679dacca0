// SPDX-License-Identifier: Apache-2.0
// An unauthenticated client of the control plane: whatever it sends, it is not accepted.
#include "io_stream.hpp"
#include "transport/authenticating_acceptor.hpp"

using namespace muster;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static control::Key const key = control::random_key();
  asio::io_context io;
  auto const name = control::local_name(key);
  control::AuthenticatingAcceptor acceptor(io, name);
  acceptor.open(
      2, [](std::uint32_t rank) { return rank == 1; }, key,
      [](int, control::Socket, const control::SessionKeys&) { std::abort(); });
  fuzz::Client const client(io, control::local_endpoint(name), {data, size});
  fuzz::run_until_cut_off(io, client);
  acceptor.close();
  io.restart();
  io.run();
  return 0;
}
