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

/// What one rank puts up at join: its hello, and what the runtime itself needs.
struct JoinRecord {
  Hello hello;
  bool on_gpu = false;    ///< its world communicator works on GPU memory
  bool gathers = false;   ///< rank 0 gathers what the ranks have noted when the job is left
  bool timeline = false;  ///< and a timeline is among it
  std::string trouble;    ///< why this rank cannot take part, empty when it can
  ErrorCode trouble_fault = ErrorCode::system;  ///< of `trouble`
  HostInventory inventory;
  std::string network;                 ///< network namespace: UNIX sockets reach its processes only
  std::vector<std::string> addresses;  ///< numeric IP addresses, the likeliest first
  std::uint16_t port = 0;              ///< of rank 0's control plane, 0 on other ranks
  std::uint16_t reunion_port = 0;      ///< where those that are left after a loss come, 0 without
  std::vector<std::uint8_t>
      key;  ///< the job's key, from rank 0 only; PMIx keeps it from others, Slurm's sends it in plain text
  std::uint16_t witness_port = 0;         ///< where ProcessReportServer listens, 0 without one
  std::vector<std::uint8_t> witness_key;  ///< of ProcessReportServer
};

/// CBOR (RFC 8949).
/// @throws Error(ErrorCode::system) when it would exceed max_record_bytes.
std::vector<std::uint8_t> encode(const JoinRecord& record);

/// @throws Error(ErrorCode::system) for anything that encode() does not write; never more than a few times
/// the input in memory.
JoinRecord decode(std::span<const std::uint8_t> bytes);

/// The same ranks, in the same order.
std::vector<Hello> roster_of(const std::vector<JoinRecord>& records);

}  // namespace muster::bootstrap
