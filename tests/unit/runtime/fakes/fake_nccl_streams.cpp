// SPDX-License-Identifier: Apache-2.0
// The fake NCCL's operations on the fake CUDA's streams.
#include <dlfcn.h>

#include <chrono>
#include <cstdlib>
#include <thread>

#include "fake_nccl.hpp"

struct fake_nccl::StreamOperation {
  std::function<ncclResult_t()> work;
  std::shared_ptr<FakeExchange> exchange;
  std::shared_ptr<StreamWork> of_communicator;
  std::shared_ptr<StreamOperation> previous;
  std::future<ncclResult_t> running = {};
  std::atomic<bool> done = false;
};

namespace fake_nccl {
namespace {

using OperationPointer = std::shared_ptr<StreamOperation>;

/// A function of the fake CUDA; null without one.
template <typename Function>
Function* find_in_fake_cuda(const char* name) {
  const char* const file = std::getenv("MUSTER_CUDA_LIBRARY");
  void* const cuda = file != nullptr ? dlopen(file, RTLD_NOW | RTLD_LOCAL) : nullptr;
  return cuda != nullptr ? reinterpret_cast<Function*>(dlsym(cuda, name)) : nullptr;
}

ncclResult_t run_unless_dropped(StreamOperation& operation) {
  return operation.of_communicator->dropped ? ncclRemoteError : operation.work();
}

// An exchange waits for other ranks, so it runs on a thread of its own.
bool advance(StreamOperation& operation) {
  if (operation.previous && !operation.previous->done) return false;
  operation.previous.reset();
  auto& shared = *operation.of_communicator;
  if (!operation.exchange) {
    run_unless_dropped(operation);
    return true;
  }
  if (!operation.running.valid()) {
    shared.runs = true;
    operation.running = std::async(std::launch::async, [&operation, &shared] {
      auto const result = run_unless_dropped(operation);
      shared.runs = false;
      return result;
    });
  }
  if (operation.running.wait_for(std::chrono::seconds{0}) != std::future_status::ready) return false;
  ncclResult_t const result = operation.running.get();
  if (result != ncclSuccess && !shared.dropped) shared.error = result;
  return true;
}

bool poll(void* data) {
  auto* const operation = static_cast<OperationPointer*>(data);
  if (!advance(**operation)) return false;
  (*operation)->done = true;
  delete operation;
  return true;
}

}  // namespace

ncclResult_t enqueue(ncclComm_t comm, cudaStream_t stream, std::function<ncclResult_t()> work) {
  static auto* const enqueue_polled =
      find_in_fake_cuda<bool(cudaStream_t, bool (*)(void*), void*)>("fake_cuda_enqueue_polled");
  OperationPointer const operation(new StreamOperation{work, comm->exchange, comm->on_streams, comm->last});
  auto* const owned = new OperationPointer(operation);
  if (enqueue_polled != nullptr && enqueue_polled(stream, poll, owned)) {
    comm->last = operation;
    return ncclSuccess;
  }
  delete owned;
  return comm->exchange ? run_async(comm, std::move(work)) : work();
}

void drop_stream_work(ncclComm_t comm) {
  comm->on_streams->dropped = true;
  while (comm->on_streams->runs) std::this_thread::sleep_for(std::chrono::microseconds{20});
}

void finish_streams() {
  if (auto* const finish = find_in_fake_cuda<void()>("fake_cuda_finish_all")) finish();
}

}  // namespace fake_nccl
