// SPDX-License-Identifier: Apache-2.0
// With PMIx, one rank of each host sends the reporter the job's processes there.
#include <future>

#include "catch.hpp"
#include "rendezvous/process_report.hpp"
#include "transport/handshake.hpp"

using namespace muster;
using namespace muster::bootstrap;
using std::chrono::milliseconds;

namespace {

KeySeal seal_with(const control::Key& key) { return {nullptr, key}; }

// A report of rank 1's process on `host` reaches the server's port.
void send_from(const std::string& host, KeySeal seal, const std::string& job, std::uint16_t port,
               int pid = 4711) {
  JoinRecord reporter;
  JoinRecord self;
  reporter.report_port = port;
  reporter.addresses = {"127.0.0.1"};
  self.hello.host = host;
  send_process_report(seal, job, reporter, self, {{1, {pid, "train\x1b[31m"}}},
                      Deadline(milliseconds{10'000}));
}

}  // namespace

TEST_CASE("the reporter gets the processes of the job's hosts, and of nobody else") {
  auto const key = control::random_key();
  ProcessReportServer server;
  auto reports = std::async(std::launch::async, [&] {
    auto seal = seal_with(key);
    return server.collect(seal, "job.7", 4, Deadline(milliseconds{3000}));
  });
  send_from("n1", seal_with(key), "job.7", server.port());
  send_from("n2", seal_with(key), "job.8", server.port());
  send_from("n3", seal_with(control::random_key()), "job.7", server.port());
  auto const received = reports.get();
  REQUIRE(received.size() == 1);
  const auto& process = received.at("n1").at(1);
  CHECK(process.pid == 4711);
  CHECK(process.name == "train?[31m");
}

TEST_CASE("where MUNGE works, a stranger's unsealed report does not replace a host's own") {
  struct Copying : CredentialCodec {
    std::vector<std::uint8_t> encode(std::span<const std::uint8_t> bytes) override {
      return {bytes.begin(), bytes.end()};
    }
    std::vector<std::uint8_t> decode(std::span<const std::uint8_t> credential) override {
      return {credential.begin(), credential.end()};
    }
  };
  auto const with_munge = [] { return KeySeal([] { return std::make_unique<Copying>(); }, {}); };
  ProcessReportServer server;
  auto reports = std::async(std::launch::async, [&] {
    auto seal = with_munge();
    return server.collect(seal, "job.7", 4, Deadline(milliseconds{3000}));
  });
  send_from("n1", with_munge(), "job.7", server.port());
  send_from("n1", KeySeal(nullptr, {}), "job.7", server.port(), 666);
  send_from("n2", KeySeal(nullptr, {}), "job.7", server.port(), 666);
  auto const received = reports.get();
  REQUIRE(received.size() == 1);
  CHECK(received.at("n1").at(1).pid == 4711);
}
