// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/process_report.hpp"

#include <algorithm>
#include <memory>
#include <vector>

#include "cbor.hpp"
#include "log.hpp"
#include "muster/error.hpp"
#include "rendezvous/credential_frame.hpp"
#include "roster/roster.hpp"
#include "transport/connect.hpp"

namespace muster::bootstrap {
namespace {

constexpr std::size_t max_name_length = 64;
constexpr std::size_t max_connections = 4096;
constexpr std::size_t max_report_bytes = 1 << 20;

// The name is printed in a message on a terminal.
std::string sanitize(std::string name) {
  if (name.size() > max_name_length) name.resize(max_name_length);
  for (auto& c : name)
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = '?';
  return name;
}

// A credential of MUNGE can be sent again, so the job's name is in it.
protocol::ProcessReport open_report(KeySeal& seal, const std::string& job,
                                    const std::vector<std::uint8_t>& sealed) {
  auto const content = read_cbor(seal.open(sealed), "a process report");
  if (content.at("job").get<std::string>() != job)
    throw Error(ErrorCode::system, "it belongs to another job");
  return protocol::decode<protocol::ProcessReport>(content.at("report"));
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

std::map<std::string, Processes> ProcessReportServer::collect(KeySeal& seal, const std::string& job, int size,
                                                              const Deadline& deadline) {
  std::map<std::string, Processes> reports;
  acceptor_.open(max_connections, [&](const std::shared_ptr<control::Acceptor::PendingConnection>& from) {
    auto const frame = std::make_shared<CredentialFrame>();
    read_frame(from->socket, frame, max_report_bytes, [&, from, frame](const std::string& error) {
      if (from->released) return;
      try {
        if (!error.empty()) throw Error(ErrorCode::system, error);
        auto const report = open_report(seal, job, frame->credential);
        reports[sanitize(report.host)] = checked_processes(report, size);
      } catch (const std::exception& refused) {
        log::debug("join: a process report was refused: {}", refused.what());
      }
      acceptor_.drop(from);
    });
  });
  io_.restart();
  io_.run_until(deadline.when());
  acceptor_.close();
  io_.restart();
  io_.run_for(std::chrono::milliseconds{100});  // runs the cancelled handlers
  return reports;
}

// To all addresses side by side, as some may not be reachable: the server counts one report for each host.
void send_process_report(KeySeal& seal, const std::string& job, const JoinRecord& reporter,
                         const JoinRecord& self, const Processes& processes, const Deadline& deadline) {
  if (reporter.report_port == 0) return;
  try {
    auto const report = make_process_report(processes, self.hello.host);
    auto const frame = make_frame(seal.seal(write_cbor({{"job", job}, {"report", encode(report)}}), false));
    asio::io_context io;
    std::vector<control::Socket> sockets;
    auto const endpoints = control::parse_endpoints(addresses_to_try(reporter, self), reporter.report_port);
    sockets.reserve(endpoints.size());
    for (const auto& endpoint : endpoints) {
      auto& socket = sockets.emplace_back(io);
      socket.async_connect(endpoint, [&socket, &frame](const asio::error_code& error) {
        if (error) return;
        asio::async_write(socket, asio::buffer(frame), [](const asio::error_code&, std::size_t) {});
      });
    }
    io.run_until(deadline.when());
    sockets.clear();
    io.restart();
    io.run();  // runs the cancelled handlers
  } catch (const std::exception& error) {
    log::debug("join: cannot send rank {} the processes of this host: {}", reporter.hello.rank, error.what());
  }
}

}  // namespace muster::bootstrap
