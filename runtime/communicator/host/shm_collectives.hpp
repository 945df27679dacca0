// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
#include <memory>

#include "communicator/communicator_group.hpp"
#include "communicator/host/core_yield.hpp"
#include "communicator/host/shm_all_reduce.hpp"
#include "muster/collective_call.hpp"

namespace muster::detail {

/// Collectives of ranks that are all on one host, without messages: each long one is made of all-reduces in
/// shared memory. A broadcast then adds zeros of the other ranks. Not thread-safe.
class ShmCollectives {
 public:
  /// Null when the ranks are on several hosts or cannot share memory. Collective, over the control plane.
  /// The arguments must live as long as the object. A wait ends with an error once `interrupted` is true, and
  /// sleeps between polls while `prefer_sleep` is.
  static std::unique_ptr<ShmCollectives> make(CommunicatorGroup& group, const std::atomic<bool>& interrupted,
                                              const std::atomic<bool>& prefer_sleep);

  /// True for the calls that run() takes: all except messages and long all-to-alls.
  bool can_run(const CollectiveCall& call) const;
  /// The group has begun the call. @throws the job's failure, and what `interrupted` asks for.
  void run(const CollectiveCall& call);

 private:
  ShmCollectives(CommunicatorGroup& group, const std::atomic<bool>& interrupted,
                 const std::atomic<bool>& prefer_sleep, std::unique_ptr<SharedSegment> segment);
  void on_spin(unsigned polls);
  // `out` is null on ranks that do not want the result.
  void reduce(const std::byte* in, std::byte* out, std::size_t count, DataType type, Reduction reduction);
  void broadcast(const std::byte* in, std::byte* out, std::size_t bytes, int root);
  void all_gather(const CollectiveCall& call, const std::function<std::size_t(int)>& count_of);
  void reduce_scatter(const CollectiveCall& call, const std::function<std::size_t(int)>& count_of);

  CommunicatorGroup& group_;
  const std::atomic<bool>& interrupted_;
  const std::atomic<bool>& prefer_sleep_;
  bool shares_cores_;  // one of the ranks
  CoreYield core_;
  ShmAllReduce all_reduce_;
};

}  // namespace muster::detail
