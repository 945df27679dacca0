// SPDX-License-Identifier: Apache-2.0
// The input of the port where srun collects reports. Bits of the first byte: 1, the token precedes the rest;
// 2, the client waits for an answer and confirms it; 4, the rest is a report and its length precedes it.
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>

#include "report/report_collector.hpp"

using namespace muster::spank;

namespace {

void run_client(int client, const std::string& message, bool confirms, int end) {
  bool const sent =
      send(client, message.data(), message.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(message.size());
  char answer = 0;
  if (sent && confirms) {
    timeval timeout{0, 20'000};  // the collector closes on invalid input, but waits if input is incomplete
    setsockopt(client, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof timeout);
    if (recv(client, &answer, 1, 0) == 1) send(client, &report_confirmed, 1, MSG_NOSIGNAL);
  }
  shutdown(client, SHUT_WR);
  if (recv(client, &answer, 1, 0) < 0) {
  }  // until the collector has closed
  close(client);
  close(end);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  CollectorLimits limits;
  limits.report_bytes = 4096;
  limits.total_bytes = 8192;
  ReportCollector collector(1, limits);
  std::string message;
  if ((data[0] & 1) != 0) message = collector.address().token;
  if ((data[0] & 4) != 0) {
    std::array<char, 9> length{};
    std::snprintf(length.data(), length.size(), "%08zx", size - 1);
    message += length.data();
  }
  message.append(reinterpret_cast<const char*>(data) + 1, size - 1);

  int end[2];
  int const client = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<std::uint16_t>(collector.address().port));
  if (client < 0 || pipe(end) != 0) std::abort();
  // Thousands of closed connections hold their ports for a minute.
  for (int tries = 0; connect(client, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0;
       ++tries) {
    if (tries == 600) std::abort();
    usleep(100'000);
  }
  // A reset instead of an orderly close releases the port at once and not after a minute.
  linger const reset{1, 0};
  setsockopt(client, SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
  std::thread client_thread(run_client, client, message, (data[0] & 2) != 0, end[1]);
  auto const reports = collector.collect(end[0]);
  client_thread.join();
  close(end[0]);
  if (reports.size() > 1 || (!reports.empty() && (data[0] & 3) != 3)) std::abort();
  muster::placement::merge_reports(reports.empty() ? std::vector<muster::placement::NodeReport>(1) : reports,
                                   1, true);
  return 0;
}
