// SPDX-License-Identifier: Apache-2.0
#include "control_plane/rpc.hpp"

#include "control_plane/control_plane.hpp"
#include "muster/error.hpp"

namespace muster::control {

void RpcTable::set_answerer(const std::string& topic, Answerer answerer) {
  std::lock_guard const lock(mutex_);
  if (answerer) {
    answerers_[topic] = std::move(answerer);
  } else {
    answerers_.erase(topic);
  }
}

Message RpcTable::answer_to(const Message& ask) const {
  Answerer answerer;
  {
    std::lock_guard const lock(mutex_);
    auto const found = answerers_.find(ask.at("topic").get_ref<const std::string&>());
    if (found != answerers_.end()) answerer = found->second;
  }
  auto answer = answerer ? answerer(ask.at("question").get_binary()) : std::nullopt;
  Message told{
      {"is", "told"}, {"to", ask.at("from")}, {"number", ask.at("number")}, {"found", answer.has_value()}};
  told["answer"] = Message::binary(answer ? std::move(*answer) : Bytes{});
  return told;
}

std::uint64_t RpcTable::begin() {
  std::lock_guard const lock(mutex_);
  asked_[++last_];
  return last_;
}

void RpcTable::hear(const Message& told) {
  std::lock_guard const lock(mutex_);
  auto const found = asked_.find(told.at("number").get<std::uint64_t>());
  if (found == asked_.end()) return;  // given up
  found->second.told = true;
  if (told.at("found").get<bool>()) found->second.answer = told.at("answer").get_binary();
  changed_.notify_all();
}

std::optional<RpcTable::Bytes> RpcTable::wait(std::uint64_t number, Deadline::Clock::time_point until) {
  std::unique_lock lock(mutex_);
  auto const& asked = asked_.at(number);
  changed_.wait_until(lock, until, [&] { return asked.told; });
  return std::move(asked_.extract(number).mapped().answer);
}

void ControlPlane::answer(const std::string& topic, RpcTable::Answerer answerer) {
  rank_questions_.set_answerer(topic, std::move(answerer));
}

std::vector<std::optional<Blob>> ControlPlane::ask_ranks(const std::vector<int>& ranks, const std::string& topic,
                                                  const Blob& question, std::chrono::milliseconds wait) {
  std::vector<std::uint64_t> numbers;
  for (int const rank : ranks) {
    numbers.push_back(rank_questions_.begin());
    post({{"is", "ask"},
          {"to", rank},
          {"topic", topic},
          {"number", numbers.back()},
          {"question", Message::binary(question)}});
  }
  Deadline const deadline(wait);
  std::vector<std::optional<Blob>> answers;
  for (auto const number : numbers) answers.push_back(rank_questions_.wait(number, deadline.when()));
  return answers;
}

void Leader::pass_on(int from, Message message) {
  auto const to = message.at("to").get<int>();
  if (to < 0 || to >= static_cast<int>(roster_.size()))
    throw Error(ErrorCode::system, "a rank asks one that does not exist");
  message["from"] = from;
  send({to}, message);
}

}  // namespace muster::control
