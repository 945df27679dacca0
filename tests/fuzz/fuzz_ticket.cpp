// SPDX-License-Identifier: Apache-2.0
// What a rank makes of the answer of whoever sits at rank 0's desk.
#include "rendezvous/key_server.hpp"
#include "transport/acceptor.hpp"

using namespace muster;
using namespace muster::bootstrap;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static auto const seal = make_peercred_codec();
  static auto const name = control::local_name(control::random_key(), 0);
  asio::io_context io;
  control::Acceptor door(io, name);
  std::vector<std::uint8_t> const answer(data, data + size);
  door.open(4, [&](const std::shared_ptr<control::Acceptor::PendingConnection>& visitor) {
    asio::async_write(visitor->socket, asio::buffer(answer),
                      [&, visitor](const asio::error_code&, std::size_t) { door.close(); });
  });
  try {
    // No answer can repeat the nonce, which is fresh: whatever gets through is a finding.
    request_job_key(io, control::local_endpoint(name), *seal, "slurm/c/1.0/", 1,
                   Deadline(std::chrono::seconds(20)));
    std::abort();
  } catch (const std::exception&) {  // the caller tries the next endpoint, whatever it was
  }
  return 0;
}
