// SPDX-License-Identifier: Apache-2.0
// Rank 0 where ranks meet without PMIx, and a broken rank 1 or 2, which has the key; then two good ones come.
// The meeting must end by itself, with all or with a reason.
#include <atomic>
#include <thread>

#include "broken_rank.hpp"
#include "cbor.hpp"
#include "rendezvous/key_server.hpp"
#include "rendezvous/rendezvous.hpp"

using namespace muster;
using namespace muster::bootstrap;

namespace {

using std::chrono::seconds;

fuzz::Bytes hello_of(int rank) {
  JoinRecord record;
  record.hello.rank = rank;
  return write_cbor({{"is", "hello"}, {"size", 3}, {"record", nlohmann::json::binary(encode(record))}});
}

// Rank 0's desk, and the ranks that come to it.
struct Visitors {
  std::string desk = control::local_name(control::random_key(), 0);
  std::atomic<bool> over{false};

  // Comes with the key and says these; goes when it is cut off.
  void come(int rank, const std::vector<fuzz::Bytes>& messages, bool stays) {
    try {
      asio::io_context io;
      auto const ticket = ticket_for(io, rank);
      auto const visitor = std::make_shared<fuzz::BrokenRank>(io, rank, ticket.key, stays);
      for (const auto& message : messages) visitor->add(message);
      visitor->start(control::tcp_endpoint(asio::ip::address_v4::loopback(), ticket.port));
      io.restart();
      io.run_for(seconds(20));
    } catch (const std::exception&) {  // the meeting is over
    }
  }

 private:
  JobCredentials ticket_for(asio::io_context& io, int rank) const {
    auto const seal = make_peercred_codec();
    while (true) {
      try {
        return request_job_key(io, control::local_endpoint(desk), *seal, "job", rank, Deadline(seconds(20)));
      } catch (const Error&) {
        if (over) throw;
        std::this_thread::sleep_for(std::chrono::microseconds(100));
      }
    }
  }
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  Visitors visitors;
  int const broken = 1 + data[0] % 2;
  std::vector<fuzz::Bytes> messages;
  for (const auto& frame : fuzz::frames_in(data + 1, size - 1))
    messages.emplace_back(frame.bytes.begin(), frame.bytes.end());
  RendezvousConfig plan;
  plan.name = "fuzz";
  plan.job = "job";
  plan.size = 3;
  plan.local_name = visitors.desk;
  plan.seal = make_peercred_codec();
  JoinRecord const mine;
  std::thread others([&] {
    visitors.come(broken, messages, false);
    std::thread beside([&] { visitors.come(1, {hello_of(1)}, true); });
    visitors.come(2, {hello_of(2)}, true);
    beside.join();
  });
  try {
    lead_meeting(plan, mine, Deadline(seconds(20)));
  } catch (const Error& error) {
    if (error.code() == ErrorCode::deadline) std::abort();
  }
  visitors.over = true;
  others.join();
  return 0;
}
