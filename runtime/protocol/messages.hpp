// SPDX-License-Identifier: Apache-2.0
// Every message between the ranks of a job; docs/protocol.md has their order. "Leader" is the host leader,
// which forwards between its host's ranks and rank 0.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "protocol/message.hpp"

namespace muster::protocol {

// On every connection.

/// Both sides, regularly. `last_call` is empty on a connection inside a host.
struct Heartbeat {
  static constexpr const char* type = "heartbeat";
  std::string last_call;
  NLOHMANN_DEFINE_TYPE_INTRUSIVE(Heartbeat, last_call)
};

/// First message of both sides inside a host: the descriptor of the sender's memory with its last call.
struct FlightRecorderMemory {
  static constexpr const char* type = "flight_recorder_memory";
  int descriptor = -1;
  NLOHMANN_DEFINE_TYPE_INTRUSIVE(FlightRecorderMemory, descriptor)
};

// Between a leader and rank 0.

/// Leader → rank 0: a message of a rank of its host.
struct FromRank {
  static constexpr const char* type = "from_rank";
  int rank = 0;
  Message message;
  NLOHMANN_DEFINE_TYPE_INTRUSIVE(FromRank, rank, message)
};

/// Rank 0 → leader: a message for these ranks of its host.
struct ToRanks {
  static constexpr const char* type = "to_ranks";
  std::vector<int> ranks;
  Message message;
  NLOHMANN_DEFINE_TYPE_INTRUSIVE(ToRanks, ranks, message)
};

/// Leader → rank 0: a rank of its host connected.
struct RankConnected {
  static constexpr const char* type = "rank_connected";
  int rank = 0;
  NLOHMANN_DEFINE_TYPE_INTRUSIVE(RankConnected, rank)
};

/// Leader → rank 0: a rank of its host disconnected. `confirmed_dead`: its process has ended.
struct RankDisconnected {
  static constexpr const char* type = "rank_disconnected";
  int rank = 0;
  std::string cause;
  bool confirmed_dead = false;
  NLOHMANN_DEFINE_TYPE_INTRUSIVE(RankDisconnected, rank, cause, confirmed_dead)
};

// Rounds: barriers, gathers and broadcasts.

/// Rank → rank 0: joins the round `name`.
struct Contribution {
  static constexpr const char* type = "contribution";
  std::string name;
  Message members;  ///< as encode_ranks() encodes them
  int root = -1;    ///< every member gets this rank's blob; -1: all blobs
  std::chrono::milliseconds wait{0};
  bool last = false;  ///< the job's final barrier
  Blob blob;
  NLOHMANN_DEFINE_TYPE_INTRUSIVE(Contribution, name, members, root, wait, last, blob)
};

/// Rank 0 → members: the round's blobs, in the order of its members.
struct RoundResult {
  static constexpr const char* type = "round_result";
  std::string name;
  bool last = false;
  std::vector<Blob> blobs;
  NLOHMANN_DEFINE_TYPE_INTRUSIVE(RoundResult, name, last, blobs)
};

// Requests to rank 0. `id` identifies the response.

/// Rank → rank 0: stores a value. It has no response.
struct Put {
  static constexpr const char* type = "put";
  std::string name;
  Blob value;
  NLOHMANN_DEFINE_TYPE_INTRUSIVE(Put, name, value)
};

/// Rank → rank 0: requests a value, for which rank 0 waits `wait` at most.
struct Get {
  static constexpr const char* type = "get";
  std::uint64_t id = 0;
  std::string name;
  std::chrono::milliseconds wait{0};
  NLOHMANN_DEFINE_TYPE_INTRUSIVE(Get, id, name, wait)
};

enum class StoreAction { add, append, compare_set, contains, erase, count };
NLOHMANN_JSON_SERIALIZE_ENUM(StoreAction, {{StoreAction::add, "add"},
                                           {StoreAction::append, "append"},
                                           {StoreAction::compare_set, "compare_set"},
                                           {StoreAction::contains, "contains"},
                                           {StoreAction::erase, "erase"},
                                           {StoreAction::count, "count"}})

/// Rank → rank 0: an atomic action on the store, as KvStore::apply() describes it. `expected`: of
/// compare_set.
struct StoreOperation {
  static constexpr const char* type = "store_operation";
  std::uint64_t id = 0;
  StoreAction action = StoreAction::add;
  std::string name;
  Blob value, expected;
  NLOHMANN_DEFINE_TYPE_INTRUSIVE(StoreOperation, id, action, name, value, expected)
};

/// Rank → rank 0: requests rank 0's clocks.
struct ReadClocks {
  static constexpr const char* type = "read_clocks";
  std::uint64_t id = 0;
  NLOHMANN_DEFINE_TYPE_INTRUSIVE(ReadClocks, id)
};

/// Host leader → rank 0: its CLOCK_REALTIME in nanoseconds, sent as soon as it is connected.
struct HostClock {
  static constexpr const char* type = "host_clock";
  std::int64_t system = 0;
  NLOHMANN_DEFINE_TYPE_INTRUSIVE(HostClock, system)
};

/// Rank 0 → rank: the response to a Get, StoreOperation or ReadClocks: a Value or Clocks.
struct Response {
  static constexpr const char* type = "response";
  std::uint64_t id = 0;
  Message body;
  NLOHMANN_DEFINE_TYPE_INTRUSIVE(Response, id, body)
};

/// Body of the response to a Get or StoreOperation.
struct Value {
  static constexpr const char* type = "value";
  bool found = false;
  Blob value;
  NLOHMANN_DEFINE_TYPE_INTRUSIVE(Value, found, value)
};

/// Body of the response to a ReadClocks: rank 0's clocks in nanoseconds.
struct Clocks {
  static constexpr const char* type = "clocks";
  std::int64_t system = 0;
  std::int64_t steady = 0;
  NLOHMANN_DEFINE_TYPE_INTRUSIVE(Clocks, system, steady)
};

// Requests between ranks, through rank 0.

/// Rank `from` → rank `to`. Rank 0 sets `from`.
struct RpcRequest {
  static constexpr const char* type = "rpc_request";
  int from = 0;
  int to = 0;
  std::uint64_t id = 0;
  std::string topic;
  Blob payload;
  NLOHMANN_DEFINE_TYPE_INTRUSIVE(RpcRequest, from, to, id, topic, payload)
};

/// Rank `from` → rank `to`, which requested it. Rank 0 sets `from`. `found`: the rank has an answer.
struct RpcResponse {
  static constexpr const char* type = "rpc_response";
  int from = 0;
  int to = 0;
  std::uint64_t id = 0;
  bool found = false;
  Blob payload;
  NLOHMANN_DEFINE_TYPE_INTRUSIVE(RpcResponse, from, to, id, found, payload)
};

// Failures.

/// Rank → rank 0: the job fails, for this reason.
struct FailureReport {
  static constexpr const char* type = "failure_report";
  ErrorCode code = ErrorCode::system;
  std::string text;
  NLOHMANN_DEFINE_TYPE_INTRUSIVE(FailureReport, code, text)
};

/// Rank 0 → all ranks: what ended the job. Only the reporter prints it.
struct Failure {
  static constexpr const char* type = "failure";
  ErrorCode code = ErrorCode::system;
  int reporter = 0;
  std::string text;
  int lost = -1;                ///< the lost rank; -1: another kind of failure
  bool confirmed_dead = false;  ///< the lost rank's process has ended
  NLOHMANN_DEFINE_TYPE_INTRUSIVE(Failure, code, reporter, text, lost, confirmed_dead)
};

/// Rank 0 → all others: these ranks are lost, and the job goes on without them.
struct RanksLost {
  static constexpr const char* type = "ranks_lost";
  std::vector<int> ranks;
  std::string text;
  NLOHMANN_DEFINE_TYPE_INTRUSIVE(RanksLost, ranks, text)
};

/// Rank → rank 0: the process that started the rank ended.
struct LauncherExit {
  static constexpr const char* type = "launcher_exit";
  std::string launcher;
  NLOHMANN_DEFINE_TYPE_INTRUSIVE(LauncherExit, launcher)
};

/// Rank → rank 0: an operation takes too long or failed here.
struct StalledOperation {
  static constexpr const char* type = "stalled_operation";
  std::string communicator{};
  Message members{};         ///< as encode_ranks() encodes them
  std::uint64_t number = 0;  ///< 0: a point-to-point message
  std::string operation{};
  std::string call{};  ///< the operation with the arguments of the call; may be empty
  std::chrono::milliseconds waited{0};
  bool warning = false;  ///< the rank still waits; otherwise the job fails
  bool silent = false;   ///< of a warning: only calls that differ matter, nothing else is printed
  ErrorCode code = ErrorCode::deadline;
  std::string reason{};  ///< why the operation failed; empty when it only takes long
  NLOHMANN_DEFINE_TYPE_INTRUSIVE(StalledOperation, communicator, members, number, operation, call, waited,
                                 warning, silent, code, reason)
};

/// Rank → rank 0: the rank makes a call of a communicator.
struct CallReport {
  static constexpr const char* type = "call_report";
  std::string communicator;
  std::uint64_t number = 0;  ///< of the operation there
  int ranks = 0;             ///< of the communicator
  std::string call;          ///< as describe_call() describes it
  std::uint64_t digest = 0;  ///< of the rank's operations there up to this one
  int rank = 0;              ///< in the communicator
  /// Of an all_to_all_v: the elements for and from each rank of the communicator; empty: not to be compared.
  std::vector<std::uint64_t> send_counts = {}, recv_counts = {};
  NLOHMANN_DEFINE_TYPE_INTRUSIVE(CallReport, communicator, number, ranks, call, digest, rank, send_counts,
                                 recv_counts)
};

/// A call of a communicator on host memory that cannot end before other ranks have entered it. Empty: none.
struct Wait {
  std::string communicator{};
  std::uint64_t number = 0;  ///< of an operation that needs all ranks; 0: a message
  Message members{};         ///< of an operation: as encode_ranks() encodes them
  // Of a message:
  int from = -1;            ///< the rank that waits, in the communicator
  int peer = -1;            ///< the other rank, in the job
  bool sends = false;       ///< the rank that waits sends it
  std::uint32_t count = 0;  ///< of the messages in this direction up to this one
  friend bool operator==(const Wait&, const Wait&) = default;
  NLOHMANN_DEFINE_TYPE_INTRUSIVE(Wait, communicator, number, members, from, peer, sends, count)
};

/// Rank 0 → ranks: requests a RankState. `communicator` may be empty.
struct RankStateQuery {
  static constexpr const char* type = "rank_state_query";
  std::uint64_t id = 0;
  std::string communicator{};
  std::uint64_t number = 0;   ///< of an operation there
  std::vector<Wait> waits{};  ///< of other ranks, without members
  NLOHMANN_DEFINE_TYPE_INTRUSIVE(RankStateQuery, id, communicator, number, waits)
};

/// Rank → rank 0: what it does, in the queried communicator and elsewhere.
struct RankState {
  static constexpr const char* type = "rank_state";
  std::uint64_t id = 0;
  std::uint64_t number = 0;  ///< of the last operation there
  std::string operation;     ///< the last one there
  bool inside = false;       ///< it waits in that operation
  std::string queried;       ///< its call with the queried number; empty when unknown
  /// Of its operations there up to the queried one, or to its last one if that comes before; then up to each
  /// one before that, as far as it knows them. Equal on ranks that made the same calls.
  std::vector<std::uint64_t> digests;
  std::string last_call;     ///< on any communicator
  std::string current_wait;  ///< the operations of communicators and the job's calls in which it waits
  /// While the rank waits in a call, it enters no other one: its program calls from one thread, and no thread
  /// of Muster makes calls beside it.
  bool one_caller = false;
  Wait wait{};
  std::vector<bool> entered{};  ///< by wait of the query: the rank has entered it, or may have
  std::uint64_t round = 0;      ///< in which the rank waits. Rank 0 sets it.
  NLOHMANN_DEFINE_TYPE_INTRUSIVE(RankState, id, number, operation, inside, queried, digests, last_call,
                                 current_wait, one_caller, wait, entered, round)
};

// Rendezvous without PMIx. FromRank, RankDisconnected and Failure occur there, too.

/// Rank → rank 0: it is there, and expects `size` ranks. `record`: an encoded JoinRecord.
struct JoinHello {
  static constexpr const char* type = "join_hello";
  int size = 0;
  Blob record;
  NLOHMANN_DEFINE_TYPE_INTRUSIVE(JoinHello, size, record)
};

/// Rank 0 → ranks: the records of some ranks, in the order of the ranks over all these messages.
struct JoinRecords {
  static constexpr const char* type = "join_records";
  std::vector<Blob> records;
  NLOHMANN_DEFINE_TYPE_INTRUSIVE(JoinRecords, records)
};

/// Leader → its host's ranks: rank 0 disconnected.
struct Rank0Disconnected {
  static constexpr const char* type = "rank_0_disconnected";
  std::string reason;
  NLOHMANN_DEFINE_TYPE_INTRUSIVE(Rank0Disconnected, reason)
};

/// Rank 0 → one rank per host: requests a ProcessReport.
struct ProcessQuery {
  static constexpr const char* type = "process_query";
  friend void to_json(Message& encoded, const ProcessQuery&) { encoded = Message::object(); }
  friend void from_json(const Message&, ProcessQuery&) {}
};

/// A process of the job; `rank` may be `unreadable`.
struct Process {
  int rank = 0;
  long pid = 0;
  std::string name;
  NLOHMANN_DEFINE_TYPE_INTRUSIVE(Process, rank, pid, name)
};

/// Rank → rank 0: which of the job's processes run on its host. With PMIx, sent to the reporter without a
/// query.
struct ProcessReport {
  static constexpr const char* type = "process_report";
  std::string host;
  std::vector<Process> processes;
  NLOHMANN_DEFINE_TYPE_INTRUSIVE(ProcessReport, host, processes)
};

// Recovery after a loss.

/// Survivor → lowest survivor: it is there. `ended`: ranks whose processes have ended.
struct Survivor {
  static constexpr const char* type = "survivor";
  Blob payload;
  std::vector<int> ended;
  NLOHMANN_DEFINE_TYPE_INTRUSIVE(Survivor, payload, ended)
};

/// Lowest survivor → survivors: the list is closed. Payloads by rank.
struct Survivors {
  static constexpr const char* type = "survivors";
  std::map<int, Blob> payloads;
  NLOHMANN_DEFINE_TYPE_INTRUSIVE(Survivors, payloads)
};

}  // namespace muster::protocol
