// SPDX-License-Identifier: Apache-2.0
#include "transport/peer_process.hpp"

#include <fmt/format.h>

#include "deadline.hpp"

namespace muster::control {
namespace {

using nlohmann::json;

// Its sockets close a moment before a process has ended.
constexpr std::chrono::milliseconds ending_time{50};
constexpr std::size_t most_said = 300;

}  // namespace

PeerProcess::PeerProcess(Socket& socket, std::shared_ptr<const FlightRecorder> own) : own_(std::move(own)) {
  asio::error_code ignored;
  is_local_ = control::is_local(socket.local_endpoint(ignored));
  if (is_local_) process_ = ProcessHandle::peer_of(socket);
}

json PeerProcess::introduction() const {
  if (!own_ || !is_local_ || own_->descriptor() < 0) return nullptr;
  return {{"is", "last call"}, {"descriptor", own_->descriptor()}};
}

json PeerProcess::beat() const {
  if (!own_ || is_local_) return {{"is", "beat"}};
  return {{"is", "beat"}, {"at", own_->text()}};
}

bool PeerProcess::hear(const json& message) {
  if (!message.is_object() || !message.contains("is")) return false;
  auto const& what = message["is"];
  if (what == "last call" && is_local_) {
    last_call_ = FlightRecorder::Reader(process_, message.at("descriptor").get<int>());
    return true;
  }
  if (what != "beat") return false;
  if (message.contains("at")) {
    said_ = message["at"].get<std::string>().substr(0, most_said);
    for (auto& c : said_)
      if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = '?';
  }
  return true;
}

DisconnectCause PeerProcess::ending(const std::string& reason, std::chrono::milliseconds heartbeat_timeout) const {
  DisconnectCause ending;
  ending.text = how(reason, heartbeat_timeout, ending.certain);
  if (auto const exactly = last_call_.text(); !exactly.empty()) {
    ending.text += ", " + exactly;
  } else if (!said_.empty()) {
    ending.text += ", " + said_ + " or later";
  }
  return ending;
}

std::string PeerProcess::how(const std::string& reason, std::chrono::milliseconds heartbeat_timeout,
                      bool& certain) const {
  bool const silent = heartbeat_timeout.count() > 0;
  auto const for_so_long = fmt::format("silent for {}", text_of(heartbeat_timeout));
  if (!process_) {
    if (silent) return fmt::format("is {}: it is stopped, or its host or the way to it is down", for_so_long);
    certain = true;
    return fmt::format("ended or broke its connection without leaving the job ({})", reason);
  }
  auto const ended = process_.how_it_ended(silent ? std::chrono::milliseconds{0} : ending_time);
  certain = !ended.empty();
  if (certain) return ended.starts_with("ended") ? ended + " without leaving the job" : ended;
  if (!silent) return fmt::format("broke its connection though it still runs ({})", reason);
  auto const state = process_.state();
  if (state != 'T') return fmt::format("is {} though it runs (state {})", for_so_long, state);
  process_.kill();
  certain = true;
  return fmt::format("is stopped, {}", for_so_long);
}

}  // namespace muster::control
