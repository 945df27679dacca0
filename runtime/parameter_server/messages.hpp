// SPDX-License-Identifier: Apache-2.0
// The messages between a client and a parameter server. Each request has one Reply with its number. Values
// are little-endian float32 or bfloat16 in a payload; offsets and counts are elements of the server's slice.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "protocol/message.hpp"

namespace muster::parameter_server {

using protocol::Blob;
using protocol::encode;
using protocol::Message;

/// Most elements of one message: 64 KiB, which malloc() takes from memory that it has.
inline constexpr std::size_t max_elements = 16u << 10;
/// Most arguments of a push, and most sums of a task.
inline constexpr std::size_t max_numbers = 1024;
/// A worker that does not wait for a slow one opens clock after clock. Each costs some hundred bytes.
inline constexpr std::uint64_t max_open_clocks = 1u << 20;

/// To server 0: a task of clock `last` at most.
struct Take {
  static constexpr const char* type = "take";
  std::uint64_t id = 0, last = 0;
  NLOHMANN_DEFINE_TYPE_INTRUSIVE(Take, id, last)
};

/// A part of an array, once `clocks` clocks are complete on this server.
struct Read {
  static constexpr const char* type = "read";
  std::uint64_t id = 0, array = 0, clocks = 0, offset = 0, count = 0;
  bool is_bfloat16 = false;
  NLOHMANN_DEFINE_TYPE_INTRUSIVE(Read, id, array, clocks, offset, count, is_bfloat16)
};

struct Write {
  static constexpr const char* type = "write";
  std::uint64_t id = 0, array = 0, offset = 0;
  Blob payload{};
  NLOHMANN_DEFINE_TYPE_INTRUSIVE(Write, id, array, offset, payload)
};

/// A part of a gradient.
struct PushPart {
  static constexpr const char* type = "push_part";
  std::uint64_t id = 0, clock = 0, index = 0, offset = 0;
  bool is_bfloat16 = false;
  Blob payload{};
  NLOHMANN_DEFINE_TYPE_INTRUSIVE(PushPart, id, clock, index, offset, is_bfloat16, payload)
};

/// All parts of the gradient were sent. The reply comes when it is applied, or in synchronous mode kept.
struct PushEnd {
  static constexpr const char* type = "push_end";
  std::uint64_t id = 0, clock = 0, index = 0;
  std::vector<double> arguments{};
  NLOHMANN_DEFINE_TYPE_INTRUSIVE(PushEnd, id, clock, index, arguments)
};

/// To server 0: all servers have the gradient.
struct TaskDone {
  static constexpr const char* type = "task_done";
  std::uint64_t id = 0, clock = 0, index = 0;
  std::vector<double> sums{};
  NLOHMANN_DEFINE_TYPE_INTRUSIVE(TaskDone, id, clock, index, sums)
};

/// To server 0: for the next clock that becomes complete.
struct AddSums {
  static constexpr const char* type = "add_sums";
  std::uint64_t id = 0;
  std::vector<double> sums{};
  NLOHMANN_DEFINE_TYPE_INTRUSIVE(AddSums, id, sums)
};

/// To server 0: reply when `clocks` clocks are complete.
struct WaitFor {
  static constexpr const char* type = "wait_for";
  std::uint64_t id = 0, clocks = 0;
  std::chrono::milliseconds wait{0};
  NLOHMANN_DEFINE_TYPE_INTRUSIVE(WaitFor, id, clocks, wait)
};

/// The client disconnects in good order.
struct Leave {
  static constexpr const char* type = "leave";
  std::uint64_t id = 0;
  NLOHMANN_DEFINE_TYPE_INTRUSIVE(Leave, id)
};

/// Server → client. An `error` is thrown by the client's call.
struct Reply {
  static constexpr const char* type = "reply";
  std::uint64_t id = 0;
  bool done = true;  ///< false: no task to take; a task to take before the wait
  std::uint64_t clock = 0, index = 0;
  std::uint64_t completed = 0;  ///< of server 0
  std::vector<double> sums{};
  Blob payload{};
  std::string error{};
  ErrorCode code = ErrorCode::system;
  NLOHMANN_DEFINE_TYPE_INTRUSIVE(Reply, id, done, clock, index, completed, sums, payload, error, code)
};

}  // namespace muster::parameter_server
