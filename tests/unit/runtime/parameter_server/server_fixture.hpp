// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "parameter_server/client.hpp"
#include "parameter_server/server.hpp"
#include "transport/connect.hpp"

/// With a deadline, so that no fault makes a test hang.
inline muster::ParameterServerOptions server_options(int servers, std::optional<std::uint64_t> staleness,
                                                     bool deals_tasks = false,
                                                     std::uint64_t tasks_per_clock = 0) {
  muster::ParameterServerOptions options;
  options.servers = servers;
  options.staleness = staleness;
  options.deals_tasks = deals_tasks;
  options.tasks_per_clock = tasks_per_clock;
  options.alignment = 1;
  options.deadline = std::chrono::seconds{20};
  return options;
}

/// Pushes a task's whole gradient.
inline void push(muster::parameter_server::Client& client, const muster::ParameterTask& task,
                 const std::vector<float>& gradient, const std::vector<double>& arguments = {}) {
  client.push_part(task, 0, gradient);
  client.end_push(task, arguments, {});
}

/// Parameter servers in this process, whose clients connect over loopback.
struct ServerFixture {
  using Client = muster::parameter_server::Client;
  using Layout = muster::parameter_server::Layout;
  using Server = muster::parameter_server::Server;
  using Values = std::vector<float>;
  /// Called with the server's slice of the parameters.
  using Update = std::function<void(std::span<float> parameters, const muster::ParameterUpdate& update)>;

  static void add_gradient(std::span<float> parameters, const muster::ParameterUpdate& update) {
    for (std::size_t i = 0; i < parameters.size(); ++i) parameters[i] += update.gradient[i];
  }

  ServerFixture(std::size_t size, const muster::ParameterServerOptions& options, int ranks,
                const Update& update = add_gradient)
      : layout(size, options, ranks), slices(static_cast<std::size_t>(options.servers)) {
    for (int s = 0; s < options.servers; ++s) {
      auto& slice = slices[static_cast<std::size_t>(s)];
      slice.resize(layout.slice(s).count());
      servers.push_back(std::make_unique<Server>(
          layout, s, std::vector<std::span<float>>{slice},
          [&slice, update](const muster::ParameterUpdate& one) { update(slice, one); },
          [](int rank) { return fmt::format("rank {} (host h{})", rank, rank); }));
    }
  }

  std::vector<muster::parameter_server::ServerAddress> addresses() const {
    std::vector<muster::parameter_server::ServerAddress> found;
    for (std::size_t s = 0; s < servers.size(); ++s)
      found.push_back({muster::control::parse_endpoints({"127.0.0.1"}, servers[s]->port()), servers[s]->key(),
                       fmt::format("rank {} (host h{})", s, s)});
    return found;
  }
  std::unique_ptr<Client> connect(
      int rank, std::function<void()> check_job = [] {}) const {
    return std::make_unique<Client>(layout, rank, addresses(), std::move(check_job));
  }
  /// Runs `work` for each worker in a thread of its own. Returns what went wrong, or nothing.
  std::string run_workers(const std::function<void(Client& client, std::uint64_t worker)>& work) const {
    std::vector<std::string> errors(layout.workers().size());
    std::vector<std::thread> threads;
    for (std::size_t w = 0; w < errors.size(); ++w) {
      threads.emplace_back([&, w] {
        try {
          auto const client = connect(layout.workers()[w]);
          work(*client, w);
          client->flush();
        } catch (const std::exception& error) {
          errors[w] = fmt::format("worker {}: {}\n", w, error.what());
        }
      });
    }
    for (auto& thread : threads) thread.join();
    std::string all;
    for (const auto& error : errors) all += error;
    return all;
  }
  /// What the servers have.
  Values parameters() const {
    Values all(layout.size());
    connect(0)->read(0, all, 0, false);
    return all;
  }

  Layout layout;
  std::vector<Values> slices;
  std::vector<std::unique_ptr<Server>> servers;
};
