// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/process_report.hpp"

#include <algorithm>

#include "log.hpp"
#include "roster/roster.hpp"
#include "transport/connect.hpp"

namespace muster::bootstrap {
namespace {

using control::Message;

constexpr std::size_t longest_name = 64;

// It ends up in a message on a terminal.
std::string cleaned(std::string name) {
  if (name.size() > longest_name) name.resize(longest_name);
  for (auto& c : name)
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = '?';
  return name;
}

}  // namespace

Message testimony_of(const Processes& processes) {
  Message list = Message::array();
  for (const auto& [rank, process] : processes)
    list.push_back({{"rank", rank}, {"pid", process.pid}, {"name", process.name}});
  return {{"is", "seen"}, {"processes", std::move(list)}};
}

Processes read_testimony(const Message& message, int size) {
  Processes processes;
  for (const auto& entry : message.at("processes")) {
    auto const rank = entry.at("rank").get<int>();
    if ((rank < 0 && rank != unreadable) || rank >= size) continue;
    processes[rank] = {entry.at("pid").get<long>(), cleaned(entry.at("name").get<std::string>())};
  }
  return processes;
}

ProcessReportServer::ProcessReportServer(int size) : size_(size), key_(control::random_key()), gate_(io_) {}

std::map<std::string, Processes> ProcessReportServer::hear(const Deadline& deadline) {
  auto const ranks = static_cast<std::uint32_t>(size_);
  gate_.open(
      size_, [ranks](std::uint32_t rank) { return rank < ranks; }, key_,
      [this](int, control::Socket socket, const control::SessionKeys& keys) {
        auto const channel =
            channels_.emplace_back(std::make_shared<control::SecureChannel>(std::move(socket), keys));
        channel->start(
            [this](const Message& message) {
              seen_[cleaned(message.at("host").get<std::string>())] = read_testimony(message, size_);
            },
            [](const std::string&) {});
      });
  io_.restart();
  io_.run_until(deadline.when());
  gate_.close();
  for (auto& channel : channels_) channel->close();
  io_.restart();
  io_.run_for(std::chrono::milliseconds{100});  // lets the cancelled handlers go
  return std::move(seen_);
}

void testify(const JoinRecord& speaker, const JoinRecord& self, const Processes& processes,
             const Deadline& deadline) {
  if (speaker.witness_key.size() != control::key_bytes || speaker.witness_port == 0) return;
  control::Key key{};
  std::copy(speaker.witness_key.begin(), speaker.witness_key.end(), key.begin());
  try {
    asio::io_context io;
    auto const endpoints = control::endpoints_of(addresses_of(speaker, self), speaker.witness_port);
    auto [socket, keys] = control::connect_to_leader(io, self.hello.rank, endpoints, key, deadline);
    auto const channel = std::make_shared<control::SecureChannel>(std::move(socket), keys);
    channel->start([](const Message&) {}, [](const std::string&) {});
    auto testimony = testimony_of(processes);
    testimony["host"] = self.hello.host;
    channel->send(testimony);
    channel->close();
    io.restart();
    io.run_until(deadline.when());
  } catch (const std::exception& error) {
    log::debug("join: cannot tell rank {} what runs here: {}", speaker.hello.rank, error.what());
  }
}

}  // namespace muster::bootstrap
