// SPDX-License-Identifier: Apache-2.0
// srun's end of a step's report: the nodes send theirs here, so that the table comes once for the step and
// not once from every node.
#pragma once

#include <chrono>
#include <cstddef>
#include <list>
#include <string>
#include <vector>

#include "placement/report/report.hpp"
#include "report/report_address.hpp"

struct pollfd;

namespace muster::spank {

/// What strangers and slow nodes can cost at most.
struct CollectorLimits {
  std::chrono::milliseconds for_others{5000};       ///< from the first report until the rest is given up
  std::chrono::milliseconds for_connection{2000};   ///< a connection may take this long
  std::size_t report_bytes = std::size_t{8} << 20;  ///< a thousand tasks with their reasons take 2 MiB
  std::size_t all_bytes = std::size_t{64} << 20;
  std::size_t connections = 256;
};

/// Listens on a port of the kernel's choice, on all of the machine's addresses. Not synchronised.
class ReportCollector {
 public:
  /// nodes: reports to wait for. @throws std::system_error when no socket or no random numbers are to be had.
  explicit ReportCollector(int nodes, const CollectorLimits& limits = {});
  ReportCollector(const ReportCollector&) = delete;
  ReportCollector& operator=(const ReportCollector&) = delete;
  ~ReportCollector();

  const ReportAddress& address() const { return address_; }
  int descriptor() const { return listener_; }

  /// Takes reports until all nodes have sent theirs, the others' time is up, `end` becomes readable or is
  /// hung up, or the process `owner` (0: none) is gone. Connections that do not begin with the token are
  /// closed.
  std::vector<placement::NodeReport> collect(int end, int owner = 0);

 private:
  using Clock = std::chrono::steady_clock;
  struct Connection {
    int descriptor;
    Clock::time_point end;
    std::string received;
    std::size_t length = 0;  // of the report; 0: not known yet
    bool answered = false;
  };

  bool is_over(int owner) const;
  void stop_taking();
  int milliseconds_to_wait() const;
  void accept_new();
  void serve_all(const std::vector<pollfd>& waiting);
  bool serve(Connection& connection);
  bool read_header(Connection& connection);
  void keep(Connection& connection);

  CollectorLimits limits_;
  ReportAddress address_;
  int listener_ = -1;
  std::size_t nodes_;
  std::list<Connection> connections_;
  std::vector<std::string> reports_;
  std::size_t kept_bytes_ = 0;
  Clock::time_point others_end_ = Clock::time_point::max();
  bool closing_ = false;
};

}  // namespace muster::spank
