// SPDX-License-Identifier: Apache-2.0
// The fake NCCL's operations and groups (fake_nccl.cpp).
#include <atomic>
#include <csignal>
#include <cstring>
#include <mutex>
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

ncclResult_t copy(const void* in, void* out, std::size_t count, ncclDataType_t type) {
  if (in != out) std::memcpy(out, in, count * bytes_of(type));
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

ncclResult_t ncclAllReduce(const void* in, void* out, size_t count, ncclDataType_t type, ncclRedOp_t op,
                           ncclComm_t comm, cudaStream_t stream) {
  log_operation("all_reduce", comm);
  delay_if("late_all_reduce");
  if (++all_reduces == 2 && is_mode("die_in_reduction")) std::raise(SIGKILL);
  last_stream = stream;
  if (!comm->exchange || is_mode("wrong_sums")) return copy(in, out, count, type);
  return run_async(comm, [=] { return comm->exchange->all_reduce(in, out, count, type, op); });
}
ncclResult_t ncclReduce(const void* in, void* out, size_t count, ncclDataType_t type, ncclRedOp_t op,
                        int root, ncclComm_t comm, cudaStream_t) {
  log_operation("reduce", comm);
  if (!comm->exchange) return copy(in, out, count, type);
  return run_async(comm, [=] { return comm->exchange->reduce(in, out, count, type, op, root); });
}
ncclResult_t ncclBroadcast(const void* in, void* out, size_t count, ncclDataType_t type, int root,
                           ncclComm_t comm, cudaStream_t) {
  log_operation("broadcast", comm);
  if (!comm->exchange) return copy(in, out, count, type);
  return run_async(comm, [=] { return comm->exchange->broadcast(in, out, count * bytes_of(type), root); });
}
ncclResult_t ncclAllGather(const void* in, void* out, size_t count, ncclDataType_t type, ncclComm_t comm,
                           cudaStream_t) {
  log_operation("all_gather", comm);
  if (!comm->exchange) return copy(in, out, count, type);
  return run_async(comm, [=] { return comm->exchange->all_gather(in, out, count * bytes_of(type)); });
}
ncclResult_t ncclReduceScatter(const void* in, void* out, size_t count, ncclDataType_t type, ncclRedOp_t op,
                               ncclComm_t comm, cudaStream_t) {
  log_operation("reduce_scatter", comm);
  if (!comm->exchange) return copy(in, out, count, type);
  return run_async(comm, [=] { return comm->exchange->reduce_scatter(in, out, count, type, op); });
}
ncclResult_t ncclSend(const void* from, size_t count, ncclDataType_t type, int to, ncclComm_t comm,
                      cudaStream_t) {
  log_operation("send", comm);
  if (is_mode("fail_send")) return ncclInvalidArgument;
  FakeMessage const message{to, from, nullptr, count * bytes_of(type)};
  if (comm->exchange && depth == 0) return run_async(comm, [=] { return comm->exchange->send(message); });
  if (comm->exchange || to == 0) sends.push_back(message);
  return ncclSuccess;
}
ncclResult_t ncclRecv(void* to, size_t count, ncclDataType_t type, int from, ncclComm_t comm, cudaStream_t) {
  log_operation("recv", comm);
  FakeMessage const message{from, nullptr, to, count * bytes_of(type)};
  if (comm->exchange && depth == 0) return run_async(comm, [=] { return comm->exchange->recv(message); });
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
  if (comm != nullptr && comm->exchange && !(sent.empty() && received.empty()))
    return run_async(comm, [=] { return comm->exchange->messages(sent, received); });
  for (std::size_t i = 0; i < sent.size() && i < received.size(); ++i)
    std::memcpy(received[i].to, sent[i].from, sent[i].bytes);
  if (comm != nullptr && comm->work.valid()) return ncclInProgress;
  if (comm == nullptr || !(is_mode("slow_group") || is_mode("hang_group"))) return ncclSuccess;
  comm->group_queries = 5;
  return ncclInProgress;
}

}  // extern "C"
