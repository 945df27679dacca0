// SPDX-License-Identifier: Apache-2.0
#include "muster/parameter_server.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <vector>

#include "c/call.hpp"
#include "c/structures.hpp"

struct muster_parameter_server {
  muster::ParameterServer server;
};
struct muster_parameter_client {
  muster::ParameterClient client;
  std::size_t elements;
};

namespace {

using muster::Error;
using muster::ErrorCode;
using muster::c::call;
using muster::c::require_not_null;

constexpr muster_parameter_server_options server_defaults = MUSTER_PARAMETER_SERVER_OPTIONS_DEFAULT;

muster::ParameterServerOptions convert_server_options(const muster_parameter_server_options* given,
                                                      const char* function) {
  if (given == nullptr) return {};
  auto const known =
      muster::c::known_part(*given, server_defaults, function, "muster_parameter_server_options");
  if (known.staleness < MUSTER_UNBOUNDED)
    throw Error(ErrorCode::usage, fmt::format("{}: staleness is {}, not 0 or more or MUSTER_UNBOUNDED",
                                              function, known.staleness));
  if (known.wire_type != MUSTER_FLOAT32 && known.wire_type != MUSTER_BFLOAT16)
    throw Error(ErrorCode::usage, fmt::format("{}: wire_type is {}, not MUSTER_FLOAT32 or MUSTER_BFLOAT16",
                                              function, known.wire_type));
  muster::ParameterServerOptions options;
  options.servers = known.servers;
  options.staleness.reset();
  if (known.staleness >= 0) options.staleness = static_cast<std::uint64_t>(known.staleness);
  options.tasks_per_clock = known.tasks_per_clock;
  options.deals_tasks = muster::c::parse_flag(known.deals_tasks, function, "deals_tasks");
  options.alignment = known.alignment;
  options.wire_type = static_cast<muster::DataType>(known.wire_type);
  options.deadline = std::chrono::milliseconds(known.deadline_ms);
  if (known.name != nullptr) options.name = known.name;
  return options;
}

// Throws the error that the program's function reports.
void run_update(muster_update update, void* context, const muster::ParameterUpdate& one) {
  muster_parameter_update const argument{sizeof argument,      {one.task.clock, one.task.index},
                                         one.gradient.data(),  one.gradient.size(),
                                         one.arguments.data(), one.arguments.size()};
  auto const errors_before = muster::c::error_count();
  int const status = muster::c::call_back(update, &argument, context);
  if (status == MUSTER_OK) return;
  if (muster::c::error_count() != errors_before) throw muster::c::last_recorded_error();
  throw Error(ErrorCode::system, fmt::format("the update function returned {}", status));
}

muster_parameter_client& get_client(muster_parameter_client* client, const char* function) {
  return require_not_null(client, function, "client");
}

// `values` may be null when there are none.
template <typename Value>
std::span<Value> list(Value* values, std::size_t count, const char* function, const char* what) {
  if (count > 0) (void)require_not_null(values, function, what);
  return {values, count};
}

}  // namespace

int muster_parameter_slice(size_t elements, const muster_parameter_server_options* options, int server,
                           size_t* begin, size_t* end) {
  return call([&] {
    constexpr auto function = "muster_parameter_slice";
    auto const wanted = convert_server_options(options, function);
    if (server < 0 || server >= wanted.servers)
      throw Error(ErrorCode::usage,
                  fmt::format("{}: server {} is not in 0 … {}", function, server, wanted.servers - 1));
    auto const slice = muster::ParameterServer::slice_of(elements, wanted, server);
    require_not_null(begin, function, "place for the slice's begin") = slice.begin;
    require_not_null(end, function, "place for the slice's end") = slice.end;
  });
}

int muster_parameter_server_new(muster_job* job, size_t elements, float* const* arrays, size_t array_count,
                                muster_update update, void* context,
                                const muster_parameter_server_options* options,
                                muster_parameter_server** server) {
  return call([&] {
    constexpr auto function = "muster_parameter_server_new";
    require_not_null(server, function, "place for the server") = nullptr;
    auto& its = require_not_null(job, function, "job").job;
    (void)require_not_null(update, function, "update function");
    auto const wanted = convert_server_options(options, function);
    if (wanted.servers < 1 || its.rank() >= wanted.servers)
      throw Error(ErrorCode::usage,
                  fmt::format("{}: rank {} is none of {} servers", function, its.rank(), wanted.servers));
    auto const slice = muster::ParameterServer::slice_of(elements, wanted, its.rank());
    std::vector<std::span<float>> spans;
    for (float* const array : list(arrays, array_count, function, "list of arrays"))
      spans.push_back(list(array, slice.count(), function, "array"));
    *server = new muster_parameter_server{muster::ParameterServer(
        its, elements, std::move(spans),
        [update, context](const muster::ParameterUpdate& one) { run_update(update, context, one); }, wanted)};
  });
}

void muster_parameter_server_free(muster_parameter_server* server) { delete server; }

int muster_parameter_server_check(const muster_parameter_server* server) {
  return call([&] { require_not_null(server, "muster_parameter_server_check", "server").server.check(); });
}

int muster_parameter_client_new(muster_job* job, size_t elements,
                                const muster_parameter_server_options* options,
                                muster_parameter_client** client) {
  return call([&] {
    constexpr auto function = "muster_parameter_client_new";
    require_not_null(client, function, "place for the client") = nullptr;
    auto& its = require_not_null(job, function, "job").job;
    *client = new muster_parameter_client{
        muster::ParameterClient(its, elements, convert_server_options(options, function)), elements};
  });
}

void muster_parameter_client_free(muster_parameter_client* client) { delete client; }

int64_t muster_parameter_worker(const muster_parameter_client* client) {
  auto const worker = client == nullptr ? std::nullopt : client->client.worker();
  return worker ? static_cast<int64_t>(*worker) : -1;
}

int muster_parameter_take(muster_parameter_client* client, uint64_t last, int* found,
                          muster_parameter_task* task) {
  return call([&] {
    constexpr auto function = "muster_parameter_take";
    auto& was_found = require_not_null(found, function, "place for the answer");
    auto& place = require_not_null(task, function, "place for the task");
    auto const taken = get_client(client, function).client.take(last);
    was_found = taken ? 1 : 0;
    if (taken) place = {taken->clock, taken->index};
  });
}

int muster_parameter_pull(muster_parameter_client* client, uint64_t clock, float* parameters) {
  return call([&] {
    auto& its = get_client(client, "muster_parameter_pull");
    its.client.pull(clock, list(parameters, its.elements, "muster_parameter_pull", "array"));
  });
}

int muster_parameter_prefetch(muster_parameter_client* client, uint64_t clock) {
  return call([&] { get_client(client, "muster_parameter_prefetch").client.prefetch(clock); });
}

int muster_parameter_push(muster_parameter_client* client, muster_parameter_task task, const float* gradient,
                          const double* arguments, size_t argument_count, const double* sums,
                          size_t sum_count) {
  return call([&] {
    constexpr auto function = "muster_parameter_push";
    auto& its = get_client(client, function);
    its.client.push({task.clock, task.index}, list(gradient, its.elements, function, "gradient"),
                    list(arguments, argument_count, function, "list of arguments"),
                    list(sums, sum_count, function, "list of sums"));
  });
}

int muster_parameter_flush(muster_parameter_client* client) {
  return call([&] { get_client(client, "muster_parameter_flush").client.flush(); });
}

int muster_parameter_wait_for(muster_parameter_client* client, uint64_t clock, int* complete, double* sums,
                              size_t sum_count) {
  return call([&] {
    constexpr auto function = "muster_parameter_wait_for";
    auto const place = list(sums, sum_count, function, "list of sums");
    auto totals = get_client(client, function).client.wait_for(clock);
    if (complete != nullptr) *complete = totals ? 1 : 0;
    if (!totals) return;
    totals->resize(sum_count);
    std::copy(totals->begin(), totals->end(), place.begin());
  });
}

int muster_parameter_read(muster_parameter_client* client, size_t array, float* values) {
  return call([&] {
    auto& its = get_client(client, "muster_parameter_read");
    its.client.read(array, list(values, its.elements, "muster_parameter_read", "array"));
  });
}

int muster_parameter_write(muster_parameter_client* client, size_t array, const float* values) {
  return call([&] {
    auto& its = get_client(client, "muster_parameter_write");
    its.client.write(array, list(values, its.elements, "muster_parameter_write", "array"));
  });
}
