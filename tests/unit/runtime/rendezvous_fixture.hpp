// SPDX-License-Identifier: Apache-2.0
// Ranks that meet without PMIx, as threads of one process.
#pragma once

#include <fmt/format.h>
#include <unistd.h>

#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "catch.hpp"
#include "has.hpp"
#include "rendezvous/key_server.hpp"
#include "rendezvous/rendezvous.hpp"
#include "transport/authenticating_acceptor.hpp"

namespace meetings {

using namespace muster;
using namespace muster::bootstrap;
using namespace std::chrono_literals;

inline JoinRecord record_of(int rank) {
  JoinRecord record;
  record.hello.rank = rank;
  record.hello.host = fmt::format("h{}", rank / 2);
  record.hello.pid = 100 + rank;
  return record;
}

// Another name for each meeting of this test program.
inline std::string new_job() {
  static int count = 0;
  return fmt::format("test/{}/{}", getpid(), ++count);
}

// All on one UNIX socket, where the kernel authenticates.
inline RendezvousConfig plan_of(const std::string& job, int rank, int size) {
  RendezvousConfig plan;
  plan.name = "test";
  plan.job = job;
  plan.rank = rank;
  plan.size = size;
  plan.leader_host = "h0";
  plan.local_name = "muster/" + job;
  plan.seal = make_peercred_codec();
  for (int r = 0; r < size; ++r) plan.host_of.push_back(record_of(r).hello.host);
  return plan;
}

inline std::uint16_t free_port() {
  asio::io_context io;
  return control::AuthenticatingAcceptor(io).port();
}

// Over TCP, the first two ranks on this host and the others on another; those of a host come through one.
inline RendezvousConfig plan_over_tcp(const std::string& job, int rank, int size,
                                 const std::vector<std::uint16_t>& ports) {
  auto plan = plan_of(job, rank, size);
  plan.local_name.clear();
  plan.ports = ports;
  plan.leader_host = "127.0.0.1";
  plan.host_of.assign(static_cast<std::size_t>(size), "h1");
  plan.host_of[0] = plan.host_of[1] = plan.leader_host;
  plan.host_socket = fmt::format("muster/{}/host{}", job, rank < 2 ? 0 : 1);
  return plan;
}

struct Outcome {
  std::vector<JoinRecord> records;
  std::optional<Error> error;
};

// Each rank's part at once, but the last one's, which may begin later.
inline std::vector<Outcome> meet(const std::vector<RendezvousConfig>& plans, std::chrono::milliseconds deadline,
                                 std::chrono::milliseconds last_later = 0ms) {
  std::vector<Outcome> outcomes(plans.size());
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < plans.size(); ++i) {
    threads.emplace_back([&, i] {
      if (i + 1 == plans.size()) std::this_thread::sleep_for(last_later);
      try {
        auto const bootstrap = meeting(plans[i]);
        outcomes[i].records = bootstrap->exchange(record_of(plans[i].rank), Deadline(deadline));
      } catch (const Error& error) {
        outcomes[i].error = error;
      }
    });
  }
  for (auto& thread : threads) thread.join();
  return outcomes;
}

inline int speakers(const std::vector<Outcome>& outcomes) {
  int count = 0;
  for (const auto& outcome : outcomes)
    if (outcome.error && !outcome.error->reported_elsewhere()) ++count;
  return count;
}

inline void check_complete(const std::vector<Outcome>& outcomes) {
  for (const auto& outcome : outcomes) {
    INFO((outcome.error ? outcome.error->what() : ""));
    REQUIRE_FALSE(outcome.error);
    REQUIRE(outcome.records.size() == outcomes.size());
    for (std::size_t r = 0; r < outcomes.size(); ++r)
      CHECK(outcome.records[r].hello.pid == 100 + static_cast<int>(r));
  }
}

}  // namespace meetings
