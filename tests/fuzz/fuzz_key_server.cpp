// SPDX-License-Identifier: Apache-2.0
// Requests to the key server. Its codec wraps nothing, so the fuzzer also chooses what MUNGE would have
// decoded.
#include "io_stream.hpp"
#include "rendezvous/key_server.hpp"

using namespace muster;
using namespace muster::bootstrap;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static auto const codec = make_peercred_codec();
  static auto const name = control::local_name(control::random_key(), 0);
  asio::io_context io;
  KeyServer key_server(std::make_unique<control::Acceptor>(io, name), *codec, "slurm/c/1.0/", 4,
                       JobCredentials{{}, 7}, [](const std::string&) {});
  fuzz::Client const client(io, control::local_endpoint(name), {data, size});
  fuzz::run_until_cut_off(io, client);
  key_server.close();
  io.restart();
  io.run();
  return 0;
}
