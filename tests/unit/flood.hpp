// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <deque>
#include <string>
#include <thread>

/// A stranger's thread that connects to a listener as fast as it can, until this object's end. It sends
/// `text` on every second connection, and closes a connection only when the listener has closed it. Two such
/// threads fit into the usual limit of 1024 files.
class Flood {
 public:
  static constexpr int kept = 300;  ///< connections; more than a listener's table has places for strangers

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
      while (open.size() >= kept && !stop_) remove_closed(open);
    }
    for (int const socket : open) ::close(socket);
  }

  static void remove_closed(std::deque<int>& open) {
    std::erase_if(open, [](int socket) {
      char ignored[256];
      bool const is_open = ::recv(socket, ignored, sizeof ignored, MSG_DONTWAIT) > 0 || errno == EAGAIN;
      if (!is_open) ::close(socket);
      return !is_open;
    });
    std::this_thread::sleep_for(std::chrono::milliseconds{1});
  }

  sockaddr_storage address_{};
  std::string text_;
  std::atomic<bool> stop_{false};
  std::atomic<int> connections_{0};
  std::thread thread_;
};
