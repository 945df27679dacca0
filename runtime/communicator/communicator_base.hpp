// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "communicator/backend.hpp"
#include "communicator/communicator_group.hpp"

namespace muster::detail {

/// What the communicators of several ranks have in common: the group that they are of.
class GroupCollectives : public CommunicatorBackend {
 public:
  int rank() const noexcept override { return group_.rank(); }
  int size() const noexcept override { return group_.size(); }
  observe::OperationPosition position() const noexcept override { return group_.position(); }
  std::vector<std::vector<std::uint64_t>> tell_all(const char* what,
                                                   const std::vector<std::uint64_t>& mine) override {
    require_open();
    return group_.tell_all(what, mine);
  }

 protected:
  explicit GroupCollectives(CommunicatorGroup group) : group_(std::move(group)) {}
  /// @throws Error(ErrorCode::usage) when the communicator has ended.
  virtual void require_open() const {}

  CommunicatorGroup group_;
};

}  // namespace muster::detail
