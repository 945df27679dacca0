// SPDX-License-Identifier: Apache-2.0
#include "recovery/process_probe.hpp"

#include <deque>
#include <utility>

namespace muster::control {

struct ProcessProbe::State {
  void close() {
    on_answer = nullptr;
    asio::error_code ignored;
    for (auto& socket : sockets) socket.close(ignored);
  }
  void answer(ProcessState state, std::size_t endpoint) {
    auto const call = std::exchange(on_answer, nullptr);
    if (!call) return;
    close();
    call(state, endpoint);
  }
  void on_connected(std::size_t endpoint, const asio::error_code& error) {
    if (!error) return answer(ProcessState::running, endpoint);
    if (error == asio::error::connection_refused && endpoint == 0) return answer(ProcessState::ended, 0);
    if (--undecided == 0) answer(ProcessState::unknown, 0);
  }

  OnAnswer on_answer;
  std::size_t undecided = 0;
  std::deque<Socket> sockets;
};

ProcessProbe::ProcessProbe(asio::io_context& io, const std::vector<Endpoint>& endpoints, int connections,
                           OnAnswer on_answer)
    : state_(std::make_shared<State>()) {
  state_->on_answer = std::move(on_answer);
  state_->undecided = endpoints.size() * static_cast<std::size_t>(connections);
  for (std::size_t e = 0; e < endpoints.size(); ++e) {
    for (int i = 0; i < connections; ++i) {
      state_->sockets.emplace_back(io).async_connect(
          endpoints[e],
          [state = state_, e](const asio::error_code& error) { state->on_connected(e, error); });
    }
  }
  if (endpoints.empty()) asio::post(io, [state = state_] { state->answer(ProcessState::unknown, 0); });
}

ProcessProbe::~ProcessProbe() { state_->close(); }

}  // namespace muster::control
