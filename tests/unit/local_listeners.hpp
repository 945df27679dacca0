// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "control_plane/control_plane_options.hpp"

/// The listeners of a job's ranks, which are all in this process.
class LocalListeners {
 public:
  explicit LocalListeners(int ranks) {
    for (int rank = 0; rank < ranks; ++rank)
      listeners_.push_back(std::make_shared<muster::control::LocalListener>());
  }

  /// `options` as `rank` has them after the join.
  muster::control::ControlPlaneOptions options_of(int rank,
                                                  muster::control::ControlPlaneOptions options) const {
    for (const auto& listener : listeners_) options.local_sockets.push_back(listener->name());
    options.listener = listeners_[static_cast<std::size_t>(rank)];
    options.host_key = host_key_;
    return options;
  }

 private:
  std::vector<std::shared_ptr<muster::control::LocalListener>> listeners_;
  muster::control::Key host_key_ = muster::control::random_key();
};
