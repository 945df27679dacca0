// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <utility>
#include <vector>

namespace muster::detail {

/// The calls of a CallGroup, recorded until they are issued together.
class GroupedCalls {
 public:
  struct Collective {
    const char* operation;  ///< a string literal
    std::function<void()> call;
  };
  struct Message {
    int peer;
    std::function<void()> call;
  };

  bool open() const noexcept { return open_; }
  void begin() { open_ = true; }
  void discard() noexcept {
    open_ = false;
    collectives_.clear();
    messages_.clear();
  }
  void add(const char* operation, std::function<void()> call) {
    collectives_.push_back({operation, std::move(call)});
  }
  void add(int peer, std::function<void()> call) { messages_.push_back({peer, std::move(call)}); }

  /// Ends the group and returns its calls.
  std::vector<Collective> take_collectives() {
    open_ = false;
    return std::exchange(collectives_, {});
  }
  std::vector<Message> take_messages() {
    open_ = false;
    return std::exchange(messages_, {});
  }

 private:
  bool open_ = false;
  std::vector<Collective> collectives_;
  std::vector<Message> messages_;
};

}  // namespace muster::detail
