// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "communicator/collectives.hpp"
#include "communicator/group.hpp"

namespace muster::detail {

/// What the communicators of several ranks have in common: the group that they are of.
class GroupCollectives : public Collectives {
 public:
  int rank() const noexcept override { return group_.rank(); }
  int size() const noexcept override { return group_.size(); }
  observe::Position position() const noexcept override { return group_.position(); }
  std::vector<std::vector<std::uint64_t>> tell_all(const char* what,
                                                   const std::vector<std::uint64_t>& mine) override {
    require_open();
    return group_.tell_all(what, mine);
  }

 protected:
  explicit GroupCollectives(Group group) : group_(std::move(group)) {}
  /// @throws Error(ErrorCode::usage) when the communicator has ended.
  virtual void require_open() const {}

  Group group_;
};

}  // namespace muster::detail
