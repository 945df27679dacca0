// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "communicator/backend.hpp"
#include "communicator/communicator_group.hpp"
#include "roster/roster.hpp"
#include "telemetry/counters.hpp"

namespace muster::detail {

/// Base class of communicators of several ranks: holds their group.
class CommunicatorBase : public CommunicatorBackend {
 public:
  int rank() const noexcept override { return group_.rank(); }
  int size() const noexcept override { return group_.size(); }
  std::string describe_rank(int rank) const override {
    auto const member = group_.members().at(static_cast<std::size_t>(rank));
    return bootstrap::describe_rank(group_.job().roster.at(static_cast<std::size_t>(member)));
  }
  observe::OperationPosition position() const noexcept override { return group_.position(); }
  void check_job() const override { group_.check(); }
  void count_background(int calls) noexcept override { group_.count_background(calls); }
  void await_background(bool awaited) noexcept override { group_.await_background(awaited); }
  std::vector<std::vector<std::uint64_t>> host_all_gather(const char* what,
                                                          const std::vector<std::uint64_t>& mine) override {
    require_open();
    wait_for_started();
    return group_.host_all_gather(what, mine);
  }

 protected:
  explicit CommunicatorBase(CommunicatorGroup group) : group_(std::move(group)) {}
  /// @throws Error(ErrorCode::usage) when the communicator has ended.
  virtual void require_open() const {}
  /// Records that this rank enters the call. `reports_counts` and the result, which a message does not
  /// change: see CommunicatorGroup::begin_call().
  std::uint64_t begin(const CollectiveCall& call, bool reports_counts = false) {
    if (!call.is_message()) return group_.begin_call(call, reports_counts);
    group_.begin_messages(to_string(call.kind), {&call.peer, 1});
    return group_.digest();
  }
  /// What a rank on host memory runs. Without elements it waits for the other ranks, so that one whose call
  /// has some is found there.
  const CollectiveCall& barrier_if_empty(const CollectiveCall& call) const noexcept {
    static constexpr CollectiveCall barrier{OperationKind::barrier};
    return call.is_empty_collective(ranks()) ? barrier : call;
  }
  std::size_t ranks() const noexcept { return static_cast<std::size_t>(size()); }

  CommunicatorGroup group_;
};

}  // namespace muster::detail
