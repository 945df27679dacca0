// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "deadline.hpp"
#include "transport/secure_channel.hpp"

namespace muster::control {

/// What a rank wants to know of another whose program takes no part in it. Thread-safe.
class RpcTable {
 public:
  using Bytes = std::vector<std::uint8_t>;
  /// Runs on the control plane's thread; nothing: there is no answer.
  using Answerer = std::function<std::optional<Bytes>(const Bytes& question)>;

  /// Who answers questions about `topic` here; nobody with an empty function.
  void set_answerer(const std::string& topic, Answerer answerer);
  /// This rank's answer to another's message "ask".
  Message answer_to(const Message& ask) const;

  /// A question begins; its number.
  std::uint64_t begin();
  /// The message "told" with its answer.
  void hear(const Message& told);
  /// The answer to the question, which ends; nothing when there is none or it does not come in time.
  std::optional<Bytes> wait(std::uint64_t number, Deadline::Clock::time_point until);

 private:
  struct Asked {
    bool told = false;
    std::optional<Bytes> answer;
  };
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, Answerer> answerers_;
  std::map<std::uint64_t, Asked> asked_;
  std::uint64_t last_ = 0;
};

}  // namespace muster::control
