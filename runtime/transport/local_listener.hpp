// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace muster::control {

/// A UNIX socket in Linux's abstract namespace, on which this process listens before it knows who will
/// connect. The kernel chooses the name (autobind, unix(7)), so no other process can hold it already.
class LocalListener {
 public:
  /// @throws Error(ErrorCode::system)
  LocalListener();
  ~LocalListener();
  LocalListener(const LocalListener&) = delete;
  LocalListener& operator=(const LocalListener&) = delete;

  /// For local_endpoint().
  const std::string& name() const noexcept { return name_; }
  /// Gives the descriptor away.
  int release() noexcept;

 private:
  int descriptor_;
  std::string name_;
};

}  // namespace muster::control
