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

namespace rendezvous_test {

using namespace muster;
using namespace muster::bootstrap;
using namespace std::chrono_literals;

inline JoinRecord make_record(int rank) {
  JoinRecord record;
  record.hello.rank = rank;
  record.hello.host = fmt::format("h{}", rank / 2);
  record.hello.pid = 100 + rank;
  return record;
}

// A different job name on each call, also between test programs.
inline std::string new_job() {
  static int count = 0;
  return fmt::format("test/{}/{}", getpid(), ++count);
}

// All ranks use one UNIX socket, where the kernel authenticates.
inline RendezvousConfig make_config(const std::string& job, int rank, int size) {
  RendezvousConfig config;
  config.name = "test";
  config.job = job;
  config.rank = rank;
  config.size = size;
  config.rank0_host = "h0";
  config.local_name = "muster/" + job;
  config.codec = make_peercred_codec();
  for (int r = 0; r < size; ++r) config.host_of.push_back(make_record(r).hello.host);
  return config;
}

inline std::uint16_t free_port() {
  asio::io_context io;
  return control::AuthenticatingAcceptor(io).port();
}

// Over TCP: the first two ranks on this host, the others on another, with a leader per host.
inline RendezvousConfig make_tcp_config(const std::string& job, int rank, int size,
                                        const std::vector<std::uint16_t>& ports) {
  auto config = make_config(job, rank, size);
  config.local_name.clear();
  config.ports = ports;
  config.rank0_host = "127.0.0.1";
  config.host_of.assign(static_cast<std::size_t>(size), "h1");
  config.host_of[0] = config.host_of[1] = config.rank0_host;
  config.host_socket = fmt::format("muster/{}/host{}", job, rank < 2 ? 0 : 1);
  return config;
}

struct Outcome {
  std::vector<JoinRecord> records;
  std::optional<Error> error;
};

// Runs all ranks in parallel; the last one starts `last_delay` later.
inline std::vector<Outcome> join_all(const std::vector<RendezvousConfig>& configs,
                                     std::chrono::milliseconds deadline,
                                     std::chrono::milliseconds last_delay = 0ms) {
  std::vector<Outcome> outcomes(configs.size());
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < configs.size(); ++i) {
    threads.emplace_back([&, i] {
      if (i + 1 == configs.size()) std::this_thread::sleep_for(last_delay);
      try {
        auto const bootstrap = make_rendezvous_bootstrap(configs[i]);
        outcomes[i].records = bootstrap->exchange(make_record(configs[i].rank), Deadline(deadline));
      } catch (const Error& error) {
        outcomes[i].error = error;
      }
    });
  }
  for (auto& thread : threads) thread.join();
  return outcomes;
}

inline int count_reporters(const std::vector<Outcome>& outcomes) {
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

}  // namespace rendezvous_test
