// SPDX-License-Identifier: Apache-2.0
#include "transport/peer_process.hpp"

#include <fmt/format.h>

#include "deadline.hpp"
#include "protocol/messages.hpp"

namespace muster::control {
namespace {

using protocol::Message;

// A process's sockets close a moment before it has ended.
constexpr std::chrono::milliseconds exit_wait{50};
// A silent process may be about to end: another rank of this host has killed it because it was stopped.
constexpr std::chrono::milliseconds silent_exit_wait{500};
constexpr std::size_t max_reported_length = 300;

}  // namespace

PeerProcess::PeerProcess(Socket& socket, std::shared_ptr<const FlightRecorder> recorder)
    : recorder_(std::move(recorder)) {
  asio::error_code ignored;
  is_local_ = control::is_local(socket.local_endpoint(ignored));
  if (is_local_ && recorder_) process_ = ProcessHandle::from_peer(socket);
}

Message PeerProcess::identity_message() const {
  if (!recorder_ || !is_local_ || recorder_->descriptor() < 0) return nullptr;
  return encode(protocol::FlightRecorderMemory{recorder_->descriptor()});
}

Message PeerProcess::heartbeat_message() const {
  return encode(protocol::Heartbeat{recorder_ && !is_local_ ? recorder_->text() : std::string()});
}

bool PeerProcess::handle_message(const Message& message) {
  if (!message.is_object() || !message.contains("type")) return false;
  auto const& type = message["type"];
  if (type == protocol::FlightRecorderMemory::type && is_local_) {
    auto const memory = protocol::decode<protocol::FlightRecorderMemory>(message);
    peer_recorder_ = FlightRecorder::Reader(process_, memory.descriptor);
    return true;
  }
  if (type != protocol::Heartbeat::type) return false;
  last_reported_call_ =
      protocol::decode<protocol::Heartbeat>(message).last_call.substr(0, max_reported_length);
  for (auto& c : last_reported_call_)
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = '?';
  return true;
}

DisconnectCause PeerProcess::disconnect_cause(const std::string& reason,
                                              std::chrono::milliseconds heartbeat_timeout) const {
  DisconnectCause cause;
  cause.silent = heartbeat_timeout.count() > 0;
  cause.text = describe_end(reason, heartbeat_timeout, cause.confirmed_dead);
  if (auto const recorded = peer_recorder_.text(); !recorded.empty()) {
    cause.text += ", " + recorded;
  } else if (!last_reported_call_.empty()) {
    cause.text += ", " + last_reported_call_ + " or later";
  }
  return cause;
}

std::string PeerProcess::describe_end(const std::string& reason, std::chrono::milliseconds heartbeat_timeout,
                                      bool& confirmed_dead) const {
  bool const silent = heartbeat_timeout.count() > 0;
  auto const silence = fmt::format("silent for {}", format_duration(heartbeat_timeout));
  if (!process_) {
    if (silent) return fmt::format("is {}: it is stopped, or its host or the way to it is down", silence);
    confirmed_dead = true;
    return fmt::format("ended or broke its connection without leaving the job ({})", reason);
  }
  bool const is_stopped = silent && process_.state() == 'T';
  auto const wait = is_stopped ? std::chrono::milliseconds{0} : silent ? silent_exit_wait : exit_wait;
  auto const ended = process_.describe_exit(wait);
  confirmed_dead = !ended.empty();
  if (confirmed_dead) return ended.starts_with("ended") ? ended + " without leaving the job" : ended;
  if (!silent) return fmt::format("broke its connection though it still runs ({})", reason);
  if (!is_stopped) return fmt::format("is {} though it runs (state {})", silence, process_.state());
  process_.kill();
  confirmed_dead = true;
  return fmt::format("is stopped, {}", silence);
}

}  // namespace muster::control
