// SPDX-License-Identifier: Apache-2.0
// The rendezvous server with a broken rank 1 or 2 that has the key, and then with two good ranks. The
// rendezvous must end by itself, with all ranks or with an error.
#include <atomic>
#include <thread>

#include "broken_rank.hpp"
#include "cbor.hpp"
#include "protocol/messages.hpp"
#include "rendezvous/key_server.hpp"
#include "rendezvous/rendezvous.hpp"

using namespace muster;
using namespace muster::bootstrap;

namespace {

using std::chrono::seconds;

fuzz::Bytes hello_message(int rank) {
  JoinRecord record;
  record.hello.rank = rank;
  return write_cbor(encode(protocol::JoinHello{3, encode_record(record)}));
}

// The socket of rank 0's key server, and the ranks that connect to it.
struct JoiningRanks {
  std::string socket_name = control::local_name(control::random_key());
  std::atomic<bool> finished{false};

  // Connects with the key, sends the messages, and returns when the connection is closed.
  void connect_rank(int rank, const std::vector<fuzz::Bytes>& messages, bool stays) {
    try {
      asio::io_context io;
      auto const credentials = request_credentials(io, rank);
      auto const rank_connection = std::make_shared<fuzz::BrokenRank>(
          io, rank, control::purpose_key(credentials.key, control::purpose::rendezvous, 0), stays);
      for (const auto& message : messages) rank_connection->add(message);
      rank_connection->start(control::tcp_endpoint(asio::ip::address_v4::loopback(), credentials.port));
      io.restart();
      io.run_for(seconds(20));
    } catch (const std::exception&) {  // the rendezvous has ended
    }
  }

 private:
  JobCredentials request_credentials(asio::io_context& io, int rank) const {
    auto const codec = make_peercred_codec();
    while (true) {
      try {
        return request_job_key(io, {control::local_endpoint(socket_name)}, *codec, "job", rank,
                               Deadline(seconds(20)))
            .first;
      } catch (const Error&) {
        if (finished) throw;
        std::this_thread::sleep_for(std::chrono::microseconds(100));
      }
    }
  }
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  JoiningRanks ranks;
  int const broken = 1 + data[0] % 2;
  std::vector<fuzz::Bytes> messages;
  for (const auto& frame : fuzz::parse_frames(data + 1, size - 1))
    messages.emplace_back(frame.bytes.begin(), frame.bytes.end());
  RendezvousConfig config;
  config.name = "fuzz";
  config.job = "job";
  config.size = 3;
  config.local_name = ranks.socket_name;
  config.codec = make_peercred_codec();
  JoinRecord const mine;
  std::thread ranks_thread([&] {
    ranks.connect_rank(broken, messages, false);
    std::thread second([&] { ranks.connect_rank(1, {hello_message(1)}, true); });
    ranks.connect_rank(2, {hello_message(2)}, true);
    second.join();
  });
  try {
    run_rendezvous_server(config, mine, Deadline(seconds(20)));
  } catch (const Error& error) {
    if (error.code() == ErrorCode::deadline) std::abort();
  }
  ranks.finished = true;
  ranks_thread.join();
  return 0;
}
