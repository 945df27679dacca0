// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <deque>
#include <string>
#include <thread>

/// A stranger's thread that connects to a listener as fast as it can, until this object's end. It sends
/// `text` on every second connection, reads nothing, and keeps the last 400 connections open.
class Flood {
 public:
  /// `address`: a sockaddr of `size` bytes.
  Flood(const void* address, std::size_t size, std::string text) : text_(std::move(text)) {
    std::memcpy(&address_, address, size);
    thread_ = std::thread([this, size] { run(static_cast<socklen_t>(size)); });
  }
  ~Flood() {
    stop_ = true;
    thread_.join();
  }
  Flood(const Flood&) = delete;
  Flood& operator=(const Flood&) = delete;

  /// How many connections were begun.
  int connections() const { return connections_; }

 private:
  void run(socklen_t size) {
    std::deque<int> open;
    while (!stop_) {
      int const socket = ::socket(address_.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
      if (::connect(socket, reinterpret_cast<const sockaddr*>(&address_), size) == 0 || errno == EINPROGRESS)
        ++connections_;
      if (connections_ % 2 == 0) (void)!::send(socket, text_.data(), text_.size(), MSG_NOSIGNAL);
      open.push_back(socket);
      if (open.size() > 400) {
        ::close(open.front());
        open.pop_front();
      }
    }
    for (int const socket : open) ::close(socket);
  }

  sockaddr_storage address_{};
  std::string text_;
  std::atomic<bool> stop_{false};
  std::atomic<int> connections_{0};
  std::thread thread_;
};
