// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>

#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "control_plane/control_plane.hpp"

/// Several ranks' control planes in one process, connected over loopback. Every rank is its own "host".
struct Star {
  using ControlPlane = muster::control::ControlPlane;
  using Key = muster::control::Key;

  static std::vector<muster::Hello> roster_of(int ranks) {
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

  explicit Star(int ranks, int connected, std::vector<int> leader_of = {},
                std::chrono::milliseconds heartbeat_timeout = std::chrono::seconds(10),
                std::chrono::milliseconds stall_warning = std::chrono::milliseconds{0})
      : options{roster_of(ranks), std::move(leader_of), heartbeat_timeout, stall_warning},
        key(muster::control::random_key()) {
    planes.push_back(ControlPlane::listen(key));
    planes[0]->lead(options);
    for (int r = 1; r < connected; ++r) planes.push_back(follow(r, key));
    if (connected == ranks) {
      on_each([](int, ControlPlane& plane) { plane.barrier("join", std::chrono::seconds(20)); });
    }
  }
  explicit Star(int ranks) : Star(ranks, ranks) {}

  std::shared_ptr<ControlPlane> follow(int rank, const Key& with,
                                std::chrono::milliseconds deadline = std::chrono::seconds(20)) const {
    return ControlPlane::follow(rank, options, {"127.0.0.1"}, planes[0]->port(), with, muster::Deadline(deadline));
  }

  /// Runs `call` for each connected rank at once; what each threw, or nothing.
  std::vector<std::optional<muster::Error>> on_each(const std::function<void(int rank, ControlPlane& plane)>& call) {
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
  std::vector<std::shared_ptr<ControlPlane>> planes;
};
