// SPDX-License-Identifier: Apache-2.0
// srun's end of a step's report. The nodes send their reports here, so that the table is printed once for the
// step and not by every node.
#pragma once

#include <chrono>
#include <cstddef>
#include <list>
#include <string>
#include <vector>

#include "file/descriptor.hpp"
#include "placement/report/report.hpp"
#include "report/report_address.hpp"

struct pollfd;

namespace muster::spank {

/// Limits on what strangers and slow nodes can cost.
struct CollectorLimits {
  /// The wait for the first report. srun does not learn when the tasks start: a prolog may delay them.
  std::chrono::milliseconds first_report{std::chrono::minutes(5)};
  std::chrono::milliseconds after_first_report{5000};  ///< the wait for the other nodes
  std::chrono::milliseconds per_connection{5000};      ///< a connection may take this long
  std::size_t report_bytes = std::size_t{8} << 20;     ///< a thousand tasks with their reasons take 2 MiB
  std::size_t total_bytes = std::size_t{64} << 20;
  std::size_t connections = 256;
};

/// Listens on a port of the kernel's choice, on all of the machine's addresses. Not synchronised.
class ReportCollector {
 public:
  /// nodes: the number of reports to wait for. @throws std::system_error without a socket or random numbers.
  explicit ReportCollector(int nodes, const CollectorLimits& limits = {});

  const ReportAddress& address() const { return address_; }
  int descriptor() const { return listener_.number(); }

  /// Receives reports until all nodes have sent theirs, the wait for the first or for the others is over, the
  /// descriptor `end` becomes readable or is hung up, or the process `owner` (0: none) has ended. Closes
  /// connections that do not begin with the token.
  std::vector<placement::NodeReport> collect(int end, int owner = 0);

 private:
  using Clock = std::chrono::steady_clock;
  struct Connection {
    Descriptor socket;
    Clock::time_point end;
    std::string received;
    std::size_t length = 0;  // of the report; 0: not known yet
    bool acknowledged = false;
  };

  bool is_finished(int owner) const;
  void stop_accepting();
  int poll_timeout() const;
  void accept_new();
  void serve_all(const std::vector<pollfd>& waiting);
  bool serve(Connection& connection);
  bool read_header(Connection& connection);
  void add_report(Connection& connection);

  CollectorLimits limits_;
  ReportAddress address_;
  Descriptor listener_;
  std::size_t nodes_;
  std::list<Connection> connections_;
  std::vector<std::string> reports_;
  std::size_t stored_bytes_ = 0;
  Clock::time_point deadline_;
  bool closing_ = false;
};

}  // namespace muster::spank
