// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "inventory/host_inventory.hpp"
#include "muster/job.hpp"

namespace muster::bootstrap {

inline constexpr std::size_t max_record_bytes = 65536;

/// What one rank publishes at join: its hello, and what the runtime itself needs.
struct JoinRecord {
  Hello hello;
  bool on_gpu = false;                       ///< its world communicator works on GPU memory
  bool gathers_telemetry = false;            ///< rank 0 gathers the ranks' telemetry when the job ends
  bool timeline = false;                     ///< that telemetry includes a timeline
  std::string error;                         ///< why this rank cannot take part, empty when it can
  ErrorCode error_code = ErrorCode::system;  ///< of `error`
  HostInventory inventory;
  std::string network;                 ///< network namespace; UNIX sockets do not reach beyond it
  std::vector<std::string> addresses;  ///< numeric IP addresses, most likely reachable first
  std::uint16_t port = 0;              ///< of rank 0's control plane; 0 on other ranks
  std::string local_socket;            ///< of its LocalListener; used if it leads other ranks of its host
  std::uint16_t recovery_port = 0;     ///< where the survivors of a rank loss meet; open while it runs
  std::vector<std::uint8_t> key;       ///< the job's, from rank 0 only
  /// What travels through PMIx in place of `key` (KeySeal), since Slurm's PMIx sends it in plain text.
  std::vector<std::uint8_t> sealed_key;
  std::uint16_t report_port = 0;  ///< of the ProcessReportServer; 0: none
};

/// Builds with the same major and minor version read each other's records.
bool is_same_release(const std::string& a, const std::string& b);

/// CBOR (RFC 8949).
/// @throws Error(ErrorCode::system) when it would exceed max_record_bytes.
std::vector<std::uint8_t> encode_record(const JoinRecord& record);

/// Needs at most a few times the input's size in memory. From another release (is_same_release()) only
/// version, rank, host and GPU.
/// @throws Error(ErrorCode::system) for input that encode_record() cannot have written.
JoinRecord decode_record(std::span<const std::uint8_t> bytes);

/// The hellos, in the same order.
std::vector<Hello> make_roster(const std::vector<JoinRecord>& records);

}  // namespace muster::bootstrap
