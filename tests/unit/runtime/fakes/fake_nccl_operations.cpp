// SPDX-License-Identifier: Apache-2.0
// The fake NCCL's operations and groups (fake_nccl.cpp).
#include <array>
#include <atomic>
#include <csignal>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "fake_nccl.hpp"

using namespace fake_nccl;

namespace {

std::atomic<int> all_reduces{0};
std::atomic<void*> last_stream{nullptr};
std::string journal;
std::mutex journal_mutex;  // ranks may be threads
// A group belongs to one thread.
thread_local int depth = 0;
thread_local ncclComm_t in_group = nullptr;  // the last communicator that was used in the group
thread_local std::vector<FakeMessage> sends;
thread_local std::vector<FakeMessage> recvs;
thread_local cudaStream_t group_stream = nullptr;  // of the group's last message

// The reductions of ncclRedOpCreatePreMulSum, by number, and their factors.
std::map<int, std::array<std::byte, 8>> premul_sums;
std::mutex premul_sums_mutex;

// The operation that is left of `op` after a premul_sum's factor, and that factor.
struct Factor {
  explicit Factor(ncclRedOp_t its_op) : op(its_op) {
    std::lock_guard const lock(premul_sums_mutex);
    auto const found = premul_sums.find(op);
    if (found == premul_sums.end()) return;
    factor = found->second;
    op = ncclSum;
  }
  ncclRedOp_t op;
  std::optional<std::array<std::byte, 8>> factor;
};

// An operation's input, after the factor was applied.
struct Input {
  Input(const void* in, std::size_t count, ncclDataType_t type, const Factor& by) : data(in) {
    if (!by.factor) return;
    products = multiply(in, count, type, by.factor->data());
    data = products.data();
  }
  const void* data;
  std::vector<std::byte> products;
};

ncclResult_t copy(const void* in, void* out, std::size_t count, ncclDataType_t type) {
  if (out != nullptr && in != out) std::memcpy(out, in, count * bytes_of(type));
  return ncclSuccess;
}

}  // namespace

ncclResult_t fake_nccl::log_operation(const char* operation, ncclComm_t comm) {
  std::lock_guard const lock(journal_mutex);
  journal += (journal.empty() ? "" : " ") + std::string(operation);
  if (depth > 0) in_group = comm;
  return ncclSuccess;
}

extern "C" {

int fake_nccl_depth() { return depth; }
/// The operations since the last call.
const char* fake_nccl_journal() {
  static std::string copy_of_journal;
  std::lock_guard const lock(journal_mutex);
  copy_of_journal = std::exchange(journal, "");
  return copy_of_journal.c_str();
}
int fake_nccl_all_reduces() { return all_reduces; }
void* fake_nccl_last_stream() { return last_stream; }

/// The reductions that were made and not destroyed.
int fake_nccl_premul_sums() {
  std::lock_guard const lock(premul_sums_mutex);
  return static_cast<int>(premul_sums.size());
}

ncclResult_t ncclRedOpCreatePreMulSum(ncclRedOp_t* op, void* scalar, ncclDataType_t type,
                                      ncclScalarResidence_t residence, ncclComm_t comm) {
  if (comm == nullptr || residence != ncclScalarHostImmediate) return ncclInvalidArgument;
  std::lock_guard const lock(premul_sums_mutex);
  int const number = premul_sums.empty() ? ncclNumOps : premul_sums.rbegin()->first + 1;
  std::memcpy(premul_sums[number].data(), scalar, bytes_of(type));
  *op = static_cast<ncclRedOp_t>(number);
  return ncclSuccess;
}

ncclResult_t ncclRedOpDestroy(ncclRedOp_t op, ncclComm_t comm) {
  std::lock_guard const lock(premul_sums_mutex);
  return comm != nullptr && premul_sums.erase(op) == 1 ? ncclSuccess : ncclInvalidArgument;
}

ncclResult_t ncclAllReduce(const void* in, void* out, size_t count, ncclDataType_t type, ncclRedOp_t op,
                           ncclComm_t comm, cudaStream_t stream) {
  log_operation("all_reduce", comm);
  delay_if("late_all_reduce");
  if (++all_reduces == 2 && is_mode("die_in_reduction")) std::raise(SIGKILL);
  last_stream = stream;
  Factor const by(op);
  bool const copies = !comm->exchange || is_mode("wrong_sums");
  return enqueue(comm, stream, [=, exchange = comm->exchange] {
    Input const input(in, count, type, by);
    if (copies) return copy(input.data, out, count, type);
    return exchange->all_reduce(input.data, out, count, type, by.op);
  });
}
ncclResult_t ncclReduce(const void* in, void* out, size_t count, ncclDataType_t type, ncclRedOp_t op,
                        int root, ncclComm_t comm, cudaStream_t stream) {
  log_operation("reduce", comm);
  return enqueue(comm, stream, [=, by = Factor(op), exchange = comm->exchange] {
    Input const input(in, count, type, by);
    if (!exchange) return copy(input.data, out, count, type);
    return exchange->reduce(input.data, out, count, type, by.op, root);
  });
}
ncclResult_t ncclBroadcast(const void* in, void* out, size_t count, ncclDataType_t type, int root,
                           ncclComm_t comm, cudaStream_t stream) {
  log_operation("broadcast", comm);
  return enqueue(comm, stream, [=, exchange = comm->exchange, hangs = is_mode("hang_broadcast")] {
    if (!exchange) return copy(in, out, count, type);
    if (hangs) return exchange->hang();
    return exchange->broadcast(in, out, count * bytes_of(type), root);
  });
}
ncclResult_t ncclAllGather(const void* in, void* out, size_t count, ncclDataType_t type, ncclComm_t comm,
                           cudaStream_t stream) {
  log_operation("all_gather", comm);
  return enqueue(comm, stream, [=, exchange = comm->exchange] {
    if (!exchange) return copy(in, out, count, type);
    return exchange->all_gather(in, out, count * bytes_of(type));
  });
}
ncclResult_t ncclReduceScatter(const void* in, void* out, size_t count, ncclDataType_t type, ncclRedOp_t op,
                               ncclComm_t comm, cudaStream_t stream) {
  log_operation("reduce_scatter", comm);
  return enqueue(comm, stream, [=, by = Factor(op), exchange = comm->exchange] {
    auto const ranks = exchange ? static_cast<std::size_t>(exchange->ranks()) : 1;
    Input const input(in, count * ranks, type, by);
    if (!exchange) return copy(input.data, out, count, type);
    return exchange->reduce_scatter(input.data, out, count, type, by.op);
  });
}
ncclResult_t ncclSend(const void* from, size_t count, ncclDataType_t type, int to, ncclComm_t comm,
                      cudaStream_t stream) {
  log_operation("send", comm);
  if (is_mode("fail_send")) return ncclInvalidArgument;
  if (is_mode("lost_send") && depth == 0) return ncclSuccess;
  FakeMessage const message{to, from, nullptr, count * bytes_of(type)};
  group_stream = stream;
  if (comm->exchange && depth == 0)
    return enqueue(comm, stream, [=, exchange = comm->exchange] { return exchange->send(message); });
  if (comm->exchange || to == 0) sends.push_back(message);
  return ncclSuccess;
}
ncclResult_t ncclRecv(void* to, size_t count, ncclDataType_t type, int from, ncclComm_t comm,
                      cudaStream_t stream) {
  log_operation("recv", comm);
  FakeMessage const message{from, nullptr, to, count * bytes_of(type)};
  group_stream = stream;
  if (comm->exchange && depth == 0)
    return enqueue(comm, stream, [=, exchange = comm->exchange] { return exchange->recv(message); });
  if (comm->exchange || from == 0) recvs.push_back(message);
  return ncclSuccess;
}

ncclResult_t ncclGroupStart() {
  ++depth;
  return log_operation("(", nullptr);
}
ncclResult_t ncclGroupEnd() {
  log_operation(")", in_group);
  if (--depth > 0) return ncclSuccess;
  auto* const comm = std::exchange(in_group, nullptr);
  auto const sent = std::exchange(sends, {});
  auto const received = std::exchange(recvs, {});
  bool const has_messages = !(sent.empty() && received.empty());
  if (comm != nullptr && comm->exchange && has_messages)
    return enqueue(comm, group_stream,
                   [=, exchange = comm->exchange] { return exchange->messages(sent, received); });
  if (comm != nullptr && has_messages) {
    enqueue(comm, group_stream, [=] {
      for (std::size_t i = 0; i < sent.size() && i < received.size(); ++i)
        std::memcpy(received[i].to, sent[i].from, sent[i].bytes);
      return ncclSuccess;
    });
  }
  if (comm != nullptr && comm->work.valid()) return ncclInProgress;
  if (comm == nullptr || !(is_mode("slow_group") || is_mode("hang_group"))) return ncclSuccess;
  comm->group_queries = 5;
  return ncclInProgress;
}

}  // extern "C"
