// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/process_report.hpp"

#include <algorithm>

#include "log.hpp"
#include "roster/roster.hpp"
#include "transport/connect.hpp"

namespace muster::bootstrap {
namespace {

using control::Message;

constexpr std::size_t max_name_length = 64;

// The name is printed in a message on a terminal.
std::string sanitize(std::string name) {
  if (name.size() > max_name_length) name.resize(max_name_length);
  for (auto& c : name)
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = '?';
  return name;
}

}  // namespace

protocol::ProcessReport make_process_report(const Processes& processes, const std::string& host) {
  protocol::ProcessReport report{host, {}};
  for (const auto& [rank, process] : processes) report.processes.push_back({rank, process.pid, process.name});
  return report;
}

Processes checked_processes(const protocol::ProcessReport& report, int size) {
  Processes processes;
  for (const auto& [rank, pid, name] : report.processes)
    if ((rank >= 0 || rank == unreadable) && rank < size) processes[rank] = {pid, sanitize(name)};
  return processes;
}

ProcessReportServer::ProcessReportServer(int reporter, int size)
    : reporter_(reporter), size_(size), key_(control::random_key()), acceptor_(io_) {}

std::map<std::string, Processes> ProcessReportServer::collect(const Deadline& deadline) {
  auto const ranks = static_cast<std::uint32_t>(size_);
  acceptor_.open(
      size_, [ranks](std::uint32_t rank) { return rank < ranks; },
      control::purpose_key(key_, control::purpose::process_report, reporter_),
      [this](int, control::Socket socket, const control::SessionKeys& keys) {
        auto const channel =
            channels_.emplace_back(std::make_shared<control::SecureChannel>(std::move(socket), keys));
        channel->start(
            [this](const Message& message) {
              auto const report = protocol::decode<protocol::ProcessReport>(message);
              reports_[sanitize(report.host)] = checked_processes(report, size_);
            },
            [](const std::string&) {});
      });
  io_.restart();
  io_.run_until(deadline.when());
  acceptor_.close();
  for (auto& channel : channels_) channel->close();
  io_.restart();
  io_.run_for(std::chrono::milliseconds{100});  // runs the cancelled handlers
  return std::move(reports_);
}

void send_process_report(const JoinRecord& reporter, const JoinRecord& self, const Processes& processes,
                         const Deadline& deadline) {
  if (reporter.report_key.size() != control::key_bytes || reporter.report_port == 0) return;
  control::Key key{};
  std::copy(reporter.report_key.begin(), reporter.report_key.end(), key.begin());
  try {
    asio::io_context io;
    auto const endpoints = control::parse_endpoints(addresses_to_try(reporter, self), reporter.report_port);
    auto [socket, keys] = control::connect_to_leader(
        io, self.hello.rank, endpoints,
        control::purpose_key(key, control::purpose::process_report, reporter.hello.rank), deadline);
    auto const channel = std::make_shared<control::SecureChannel>(std::move(socket), keys);
    channel->start([](const Message&) {}, [](const std::string&) {});
    channel->send(encode(make_process_report(processes, self.hello.host)));
    channel->close();
    io.restart();
    io.run_until(deadline.when());
  } catch (const std::exception& error) {
    log::debug("join: cannot send rank {} the processes of this host: {}", reporter.hello.rank, error.what());
  }
}

}  // namespace muster::bootstrap
