// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace muster::spank {

/// Where the nodes of a step send their reports, and the secret that authenticates them.
struct ReportAddress {
  std::vector<std::string> hosts;  ///< numeric IPv4 and IPv6 addresses of srun's machine, at most 8
  int port = 0;
  std::string token;  ///< 32 hexadecimal digits

  /// "TOKEN:PORT:ADDRESS,ADDRESS".
  std::string to_string() const;
  /// nullopt for a text that to_string() cannot return.
  static std::optional<ReportAddress> parse(const std::string& text);
};

/// The variable of a step's environment that carries the address to the nodes, which remove it before the
/// tasks start. srun --export=NONE passes only variables with this prefix.
inline constexpr const char* report_address_variable = "SLURM_MUSTER_REPORT";

inline constexpr std::size_t report_token_digits = 32;
inline constexpr std::size_t report_length_digits = 8;

// The exchange, on one TCP connection: the node sends the token, the length of its report in hexadecimal
// digits and the report (placement::write_node_report); the collector answers report_received; the node
// sends report_confirmed and closes. Only a confirmed report counts, so a node that gave up waiting and
// printed its own table is not shown twice.
inline constexpr char report_received = 'R';
inline constexpr char report_confirmed = 'C';

}  // namespace muster::spank
