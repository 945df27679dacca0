// SPDX-License-Identifier: Apache-2.0
// Server 0 of two, with two broken workers that have its key. The first byte decides whether updates are
// synchronous and whether tasks are dealt. Frames with an even sender come from the first worker, other
// frames from the second. Afterwards a good rank must be able to read the parameters.
#include "broken_rank.hpp"
#include "cbor.hpp"
#include "parameter_server/server.hpp"
#include "transport/connect.hpp"
#include "transport/secure_channel.hpp"

using namespace muster;
using namespace muster::parameter_server;

namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr std::size_t size = 64;
constexpr int ranks = 5;

ParameterServerOptions make_options(std::uint8_t choice) {
  ParameterServerOptions options;
  options.servers = 2;
  options.staleness = choice % 2 == 1 ? std::optional<std::uint64_t>(0) : std::nullopt;
  options.deals_tasks = choice / 2 % 2 == 1;
  options.tasks_per_clock = options.deals_tasks ? 2 : 0;
  return options;
}

void run_until(asio::io_context& io, const std::function<bool()>& is_done) {
  auto const until = std::chrono::steady_clock::now() + seconds(20);
  while (!is_done()) {
    if (std::chrono::steady_clock::now() > until) std::abort();
    io.restart();
    io.run_one_for(milliseconds(100));
  }
}

void read_parameters(asio::io_context& io, const control::Endpoint& endpoint, const control::Key& key,
                     std::size_t count) {
  auto [socket, keys] = control::connect_once(io, ranks - 1, {endpoint}, key, Deadline(seconds(20)));
  auto const channel = std::make_shared<control::SecureChannel>(std::move(socket), keys);
  std::optional<Reply> reply;
  bool ended = false;
  channel->start([&](const Message& message) { reply = protocol::decode<Reply>(message); },
                 [&](const std::string&) { ended = true; });
  channel->send(encode(Read{1, 0, 0, 0, count}));
  run_until(io, [&] { return reply || ended; });
  if (!reply || reply->payload.size() != count * sizeof(float)) std::abort();
  channel->close();
  run_until(io, [&] {
    io.poll();
    return channel.use_count() == 1;
  });
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t bytes) {
  if (bytes == 0) return 0;
  Layout const layout(size, make_options(data[0]), ranks);
  std::vector<float> parameters(layout.slice(0).count());
  Server server(
      layout, 0, {parameters},
      [&](const ParameterUpdate& update) {
        for (std::size_t i = 0; i < parameters.size(); ++i) parameters[i] += update.gradient[i];
      },
      [](int rank) { return "rank " + std::to_string(rank); });
  auto const key = control::purpose_key(server.key(), control::purpose::parameter_server, 0);
  auto const endpoint = control::tcp_endpoint(asio::ip::address_v4::loopback(), server.port());

  asio::io_context io;
  auto const first = std::make_shared<fuzz::BrokenRank>(io, 2, key);
  auto const second = std::make_shared<fuzz::BrokenRank>(io, 3, key);
  for (const auto& frame : fuzz::parse_frames(data + 1, bytes - 1))
    (frame.from % 2 == 0 ? first : second)->add(frame.bytes);
  first->start(endpoint);
  second->start(endpoint);
  run_until(io, [&] { return first->is_over() && second->is_over(); });
  if (!first->is_authenticated() || !second->is_authenticated()) std::abort();
  read_parameters(io, endpoint, key, parameters.size());
  server.check();  // an exception out of a handler would show here
  return 0;
}
