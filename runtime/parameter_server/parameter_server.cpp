// SPDX-License-Identifier: Apache-2.0
// The public classes: a job's servers and clients find each other through the job's store.
#include "muster/parameter_server.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "cbor.hpp"
#include "control_plane/control_plane.hpp"
#include "job/job_internals.hpp"
#include "parameter_server/client.hpp"
#include "parameter_server/server.hpp"
#include "roster/roster.hpp"
#include "transport/connect.hpp"

namespace muster {
namespace {

using parameter_server::Client;
using parameter_server::Layout;
using parameter_server::Server;
using parameter_server::ServerAddress;

std::string store_name(const ParameterServerOptions& options, int server) {
  return fmt::format("parameter server {} of '{}'", server, options.name);
}

std::string describe(const Job& job, int rank) {
  return bootstrap::describe_rank(job.roster().at(static_cast<std::size_t>(rank)));
}

void publish(control::ControlPlane& plane, const std::string& name, const Server& server) {
  auto const& key = server.key();
  plane.put(name,
            write_cbor({{"port", server.port()}, {"key", nlohmann::json::binary({key.begin(), key.end()})}}));
}

ServerAddress find_server(Job& job, const ParameterServerOptions& options, int server) {
  ServerAddress address;
  address.name = describe(job, server);
  auto const value = detail::JobInternals::plane(job)->get(store_name(options, server), options.deadline);
  if (!value)
    throw Error(ErrorCode::deadline,
                fmt::format("parameter server: {} has not started '{}'", address.name, options.name));
  auto const found = read_cbor(*value, "the address of a parameter server");
  auto const& key = found.at("key").get_binary();
  if (key.size() != address.key.size())
    throw Error(ErrorCode::system, "parameter server: the key has another length");
  std::copy(key.begin(), key.end(), address.key.begin());
  auto const& records = detail::JobInternals::records(job);
  address.endpoints =
      control::parse_endpoints(bootstrap::addresses_to_try(records.at(static_cast<std::size_t>(server)),
                                                           records.at(static_cast<std::size_t>(job.rank()))),
                               found.at("port").get<std::uint16_t>());
  return address;
}

std::unique_ptr<Client> connect(Job& job, std::size_t size, const ParameterServerOptions& options) {
  Layout const layout(size, options, job.size());
  std::vector<ServerAddress> servers;
  for (int server = 0; server < options.servers; ++server)
    servers.push_back(find_server(job, options, server));
  return std::make_unique<Client>(layout, job.rank(), servers,
                                  [plane = detail::JobInternals::plane(job)] { plane->check(); });
}

}  // namespace

struct ParameterServer::State {
  std::unique_ptr<Server> server;
};

ParameterServer::ParameterServer(Job& job, std::size_t size, std::vector<std::span<float>> arrays,
                                 Update update, const ParameterServerOptions& options)
    : state_(std::make_unique<State>()) {
  Layout const layout(size, options, job.size());
  if (job.rank() >= options.servers)
    throw Error(ErrorCode::usage, fmt::format("parameter server: {} is none of {} servers",
                                              describe(job, job.rank()), options.servers));
  for (const auto& array : arrays) {
    if (array.size() != layout.slice(job.rank()).count())
      throw Error(ErrorCode::usage, fmt::format("parameter server: an array of {} elements for a slice of {}",
                                                array.size(), layout.slice(job.rank()).count()));
  }
  if (arrays.empty() || !update)
    throw Error(ErrorCode::usage, "parameter server: it needs an array and an update function");
  std::vector<std::string> names;
  for (int rank = 0; rank < job.size(); ++rank) names.push_back(describe(job, rank));
  state_->server = std::make_unique<Server>(
      layout, job.rank(), std::move(arrays), std::move(update),
      [names = std::move(names)](int rank) { return names.at(static_cast<std::size_t>(rank)); });
  publish(*detail::JobInternals::plane(job), store_name(options, job.rank()), *state_->server);
}

ParameterServer::~ParameterServer() = default;
ParameterServer::ParameterServer(ParameterServer&&) noexcept = default;

void ParameterServer::add_sums(std::span<const double> sums) { state_->server->add_sums(sums); }
void ParameterServer::check() const { state_->server->check(); }

struct ParameterClient::State {
  int rank;
  std::unique_ptr<Client> client;
};

ParameterClient::ParameterClient(Job& job, std::size_t size, const ParameterServerOptions& options)
    : state_(std::make_unique<State>(State{job.rank(), connect(job, size, options)})) {}
ParameterClient::~ParameterClient() = default;
ParameterClient::ParameterClient(ParameterClient&&) noexcept = default;

std::optional<std::uint64_t> ParameterClient::worker() const noexcept {
  int const number = state_->rank - state_->client->layout().first_worker();
  return number < 0 ? std::nullopt : std::optional(static_cast<std::uint64_t>(number));
}
std::uint64_t ParameterClient::tasks_per_clock() const noexcept {
  return state_->client->layout().tasks_per_clock();
}

std::optional<ParameterTask> ParameterClient::take(std::uint64_t last) { return state_->client->take(last); }
void ParameterClient::prefetch(std::uint64_t clock) { state_->client->prefetch(clock); }
void ParameterClient::pull(std::uint64_t clock, std::span<float> parameters) {
  state_->client->pull(clock, parameters);
}
void ParameterClient::push(const ParameterTask& task, std::span<const float> gradient,
                           std::span<const double> arguments, std::span<const double> sums) {
  if (gradient.size() != state_->client->layout().size())
    throw Error(ErrorCode::usage, fmt::format("parameter server: a gradient of {} elements for {} parameters",
                                              gradient.size(), state_->client->layout().size()));
  state_->client->push_part(task, 0, gradient);
  state_->client->end_push(task, arguments, sums);
}
void ParameterClient::push_part(const ParameterTask& task, std::size_t offset,
                                std::span<const float> gradient) {
  state_->client->push_part(task, offset, gradient);
}
void ParameterClient::end_push(const ParameterTask& task, std::span<const double> arguments,
                               std::span<const double> sums) {
  state_->client->end_push(task, arguments, sums);
}
void ParameterClient::flush() { state_->client->flush(); }
std::optional<std::vector<double>> ParameterClient::wait_for(std::uint64_t clock) {
  return state_->client->wait_for(clock);
}
std::uint64_t ParameterClient::completed() const noexcept { return state_->client->completed(); }
void ParameterClient::add_sums(std::span<const double> sums) { state_->client->add_sums(sums); }
void ParameterClient::read(std::size_t array, std::span<float> values, std::uint64_t clocks) {
  state_->client->read(array, values, clocks, false);
}
void ParameterClient::write(std::size_t array, std::span<const float> values) {
  state_->client->write(array, values);
}

}  // namespace muster
