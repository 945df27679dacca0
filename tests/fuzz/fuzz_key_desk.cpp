// SPDX-License-Identifier: Apache-2.0
// Requests at the desk that hands out the job's key. The seal is the one that wraps nothing, so that what
// MUNGE would have opened is the fuzzer's to choose too.
#include "io_stream.hpp"
#include "rendezvous/key_server.hpp"

using namespace muster;
using namespace muster::bootstrap;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static auto const seal = make_peercred_codec();
  static auto const name = control::local_name(control::random_key(), 0);
  asio::io_context io;
  KeyServer desk(std::make_unique<control::Acceptor>(io, name), *seal, "slurm/c/1.0/", 4, JobCredentials{{}, 7},
               [](const std::string&) {});
  fuzz::Client const client(io, control::local_endpoint(name), {data, size});
  fuzz::run_until_cut_off(io, client);
  desk.close();
  io.restart();
  io.run();
  return 0;
}
