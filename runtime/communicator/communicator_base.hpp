// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "communicator/backend.hpp"
#include "communicator/communicator_group.hpp"

namespace muster::detail {

/// Base class of communicators of several ranks: holds their group.
class CommunicatorBase : public CommunicatorBackend {
 public:
  int rank() const noexcept override { return group_.rank(); }
  int size() const noexcept override { return group_.size(); }
  observe::OperationPosition position() const noexcept override { return group_.position(); }
  std::vector<std::vector<std::uint64_t>> host_all_gather(const char* what,
                                                          const std::vector<std::uint64_t>& mine) override {
    require_open();
    return group_.host_all_gather(what, mine);
  }

 protected:
  explicit CommunicatorBase(CommunicatorGroup group) : group_(std::move(group)) {}
  /// @throws Error(ErrorCode::usage) when the communicator has ended.
  virtual void require_open() const {}

  CommunicatorGroup group_;
};

}  // namespace muster::detail
