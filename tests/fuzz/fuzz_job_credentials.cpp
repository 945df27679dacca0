// SPDX-License-Identifier: Apache-2.0
// A rank's parser of key server answers, from any process at rank 0's address.
#include "rendezvous/key_server.hpp"
#include "transport/acceptor.hpp"

using namespace muster;
using namespace muster::bootstrap;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static auto const codec = make_peercred_codec();
  static auto const name = control::local_name(control::random_key());
  asio::io_context io;
  control::Acceptor acceptor(io, name);
  std::vector<std::uint8_t> const answer(data, data + size);
  acceptor.open(4, [&](const std::shared_ptr<control::Acceptor::PendingConnection>& connection) {
    asio::async_write(connection->socket, asio::buffer(answer),
                      [&, connection](const asio::error_code&, std::size_t) { acceptor.close(); });
  });
  try {
    // No answer can contain the nonce, which is new: an accepted one is a bug.
    request_job_key(io, {control::local_endpoint(name)}, *codec, "slurm/c/1.0/", 1,
                    Deadline(std::chrono::seconds(20)));
    std::abort();
  } catch (const std::exception&) {  // the caller tries the next endpoint after any error
  }
  return 0;
}
