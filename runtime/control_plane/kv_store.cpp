// SPDX-License-Identifier: Apache-2.0
#include "control_plane/kv_store.hpp"

#include "deadline.hpp"

namespace muster::control {

bool KvStore::put(const std::string& name, std::vector<std::uint8_t> value) {
  auto& kept = values_[name];
  bytes_ = bytes_ + value.size() - kept.size();
  kept = std::move(value);
  if (bytes_ + values_.size() * max_key_bytes > max_store_bytes) return false;
  auto const [first, last] = questions_.equal_range(name);
  std::vector<std::shared_ptr<Question>> asked;
  for (auto at = first; at != last; ++at) asked.push_back(at->second);
  questions_.erase(first, last);
  for (const auto& question : asked) {
    --waiting_[question->rank];
    answer(*question, &kept);
  }
  return true;
}

bool KvStore::get(int rank, const std::string& name, std::uint64_t id, std::chrono::milliseconds wait) {
  auto const question = std::make_shared<Question>(io_);
  question->rank = rank;
  question->id = id;
  if (auto const found = values_.find(name); found != values_.end()) {
    answer(*question, &found->second);
    return true;
  }
  if (waiting_[rank] >= max_questions) return false;
  ++waiting_[rank];
  question->timer.expires_after(Deadline(wait).length());
  auto const at = questions_.emplace(name, question);
  question->timer.async_wait([this, at, weak = std::weak_ptr(question)](const asio::error_code& error) {
    auto const late = weak.lock();  // answered or given up: no longer in the list
    if (error || !late) return;
    questions_.erase(at);
    --waiting_[late->rank];
    answer(*late, nullptr);
  });
  return true;
}

void KvStore::answer(const Question& question, const std::vector<std::uint8_t>* value) {
  send_(question.rank, {{"is", "got"},
                        {"id", question.id},
                        {"found", value != nullptr},
                        {"value", Message::binary(value != nullptr ? *value : std::vector<std::uint8_t>{})}});
}

}  // namespace muster::control
