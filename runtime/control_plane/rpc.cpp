// SPDX-License-Identifier: Apache-2.0
#include "control_plane/rpc.hpp"

#include "control_plane/control_plane.hpp"
#include "muster/error.hpp"

namespace muster::control {

void RpcTable::register_handler(const std::string& topic, Handler handler) {
  std::lock_guard const lock(mutex_);
  if (handler) {
    handlers_[topic] = std::move(handler);
  } else {
    handlers_.erase(topic);
  }
}

Message RpcTable::handle_request(const Message& request) const {
  Handler handler;
  {
    std::lock_guard const lock(mutex_);
    auto const found = handlers_.find(request.at("topic").get_ref<const std::string&>());
    if (found != handlers_.end()) handler = found->second;
  }
  auto answer = handler ? handler(request.at("question").get_binary()) : std::nullopt;
  Message response{{"is", "told"},
                   {"to", request.at("from")},
                   {"number", request.at("number")},
                   {"found", answer.has_value()}};
  response["answer"] = Message::binary(answer ? std::move(*answer) : Bytes{});
  return response;
}

std::uint64_t RpcTable::begin_request() {
  std::lock_guard const lock(mutex_);
  pending_[++last_number_];
  return last_number_;
}

void RpcTable::on_response(const Message& response) {
  std::lock_guard const lock(mutex_);
  auto const found = pending_.find(response.at("number").get<std::uint64_t>());
  if (found == pending_.end()) return;  // the request timed out
  found->second.completed = true;
  if (response.at("found").get<bool>()) found->second.answer = response.at("answer").get_binary();
  changed_.notify_all();
}

std::optional<RpcTable::Bytes> RpcTable::wait_for_response(std::uint64_t number,
                                                           Deadline::Clock::time_point until) {
  std::unique_lock lock(mutex_);
  auto const& request = pending_.at(number);
  changed_.wait_until(lock, until, [&] { return request.completed; });
  return std::move(pending_.extract(number).mapped().answer);
}

void ControlPlane::register_handler(const std::string& topic, RpcTable::Handler handler) {
  rpc_.register_handler(topic, std::move(handler));
}

std::vector<std::optional<Blob>> ControlPlane::query_ranks(const std::vector<int>& ranks,
                                                           const std::string& topic, const Blob& request,
                                                           std::chrono::milliseconds wait) {
  std::vector<std::uint64_t> numbers;
  for (int const rank : ranks) {
    numbers.push_back(rpc_.begin_request());
    post({{"is", "ask"},
          {"to", rank},
          {"topic", topic},
          {"number", numbers.back()},
          {"question", Message::binary(request)}});
  }
  Deadline const deadline(wait);
  std::vector<std::optional<Blob>> responses;
  for (auto const number : numbers) responses.push_back(rpc_.wait_for_response(number, deadline.when()));
  return responses;
}

void Coordinator::forward(int from, Message message) {
  auto const to = message.at("to").get<int>();
  if (to < 0 || to >= static_cast<int>(roster_.size()))
    throw Error(ErrorCode::system, "a request to a rank that does not exist");
  message["from"] = from;
  send({to}, message);
}

}  // namespace muster::control
