// SPDX-License-Identifier: Apache-2.0
#include "control_plane/rpc.hpp"

namespace muster::control {

void RpcTable::register_handler(const std::string& topic, Handler handler) {
  std::lock_guard const lock(mutex_);
  if (handler) {
    handlers_[topic] = std::move(handler);
  } else {
    handlers_.erase(topic);
  }
}

protocol::RpcResponse RpcTable::handle_request(const protocol::RpcRequest& request) const {
  Handler handler;
  {
    std::lock_guard const lock(mutex_);
    if (auto const found = handlers_.find(request.topic); found != handlers_.end()) handler = found->second;
  }
  protocol::RpcResponse response;
  response.to = request.from;
  response.id = request.id;
  if (auto answer = handler ? handler(request.payload) : std::nullopt) {
    response.found = true;
    response.payload = std::move(*answer);
  }
  return response;
}

std::uint64_t RpcTable::begin_request() {
  std::lock_guard const lock(mutex_);
  pending_[++last_number_];
  return last_number_;
}

void RpcTable::on_response(const protocol::RpcResponse& response) {
  {
    std::lock_guard const lock(mutex_);
    auto const found = pending_.find(response.id);
    if (found == pending_.end()) return;  // the request timed out
    found->second.completed = true;
    if (response.found) found->second.answer = response.payload;
  }
  changed_.notify_all();
}

std::optional<RpcTable::Bytes> RpcTable::wait_for_response(std::uint64_t number,
                                                           Deadline::Clock::time_point until) {
  std::unique_lock lock(mutex_);
  auto const& request = pending_.at(number);
  changed_.wait_until(lock, until, [&] { return request.completed; });
  return std::move(pending_.extract(number).mapped().answer);
}

}  // namespace muster::control
