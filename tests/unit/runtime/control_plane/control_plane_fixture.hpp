// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>

#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "control_plane/control_plane.hpp"
#include "local_listeners.hpp"

/// Control planes of several ranks in one process, connected over loopback. By default every rank is its own
/// host.
struct ControlPlaneFixture {
  using ControlPlane = muster::control::ControlPlane;
  using Key = muster::control::Key;

  static std::vector<muster::Hello> make_roster(int ranks) {
    std::vector<muster::Hello> roster;
    for (int r = 0; r < ranks; ++r) {
      muster::Hello hello;
      hello.rank = r;
      hello.host = fmt::format("h{}", r);
      hello.gpu = fmt::format("0000:0{}:00.0", r);
      hello.pid = 100 + r;
      roster.push_back(hello);
    }
    return roster;
  }

  explicit ControlPlaneFixture(int ranks, int connected, std::vector<int> host_leaders = {},
                               std::chrono::milliseconds heartbeat_timeout = std::chrono::seconds(10),
                               std::chrono::milliseconds stall_warning = std::chrono::milliseconds{0},
                               muster::control::ReporterCheck::Query query_processes = nullptr)
      : options{make_roster(ranks),
                std::move(host_leaders),
                heartbeat_timeout,
                stall_warning,
                std::chrono::milliseconds{0},
                false,
                std::move(query_processes)},
        key(muster::control::random_key()),
        listeners(ranks) {
    planes.push_back(ControlPlane::listen(key));
    planes[0]->start_coordinator(listeners.options_of(0, options));
    for (int r = 1; r < connected; ++r) planes.push_back(connect(r, key));
    if (connected == ranks) {
      run_on_all([](int, ControlPlane& plane) { plane.barrier("join", std::chrono::seconds(20)); });
    }
  }
  explicit ControlPlaneFixture(int ranks) : ControlPlaneFixture(ranks, ranks) {}

  std::shared_ptr<ControlPlane> connect(int rank, const Key& with,
                                        std::chrono::milliseconds deadline = std::chrono::seconds(20)) const {
    return ControlPlane::connect(rank, listeners.options_of(rank, options), {"127.0.0.1"}, planes[0]->port(),
                                 with, muster::Deadline(deadline));
  }

  /// Runs `call` for each connected rank at the same time. Returns the error that each threw, or nothing.
  std::vector<std::optional<muster::Error>> run_on_all(
      const std::function<void(int rank, ControlPlane& plane)>& call) {
    std::vector<std::optional<muster::Error>> thrown(planes.size());
    std::vector<std::thread> threads;
    for (std::size_t r = 0; r < planes.size(); ++r) {
      threads.emplace_back([&, r] {
        try {
          call(static_cast<int>(r), *planes[r]);
        } catch (const muster::Error& error) {
          thrown[r] = error;
        }
      });
    }
    for (auto& thread : threads) thread.join();
    return thrown;
  }

  muster::control::ControlPlaneOptions options;
  Key key;
  LocalListeners listeners;
  std::vector<std::shared_ptr<ControlPlane>> planes;
};
