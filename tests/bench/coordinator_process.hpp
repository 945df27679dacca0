// SPDX-License-Identifier: Apache-2.0
// For control_plane_scale: the real rank 0 in its own process, so that each end of its connections has its
// own limit of open files.
#pragma once

#include <pthread.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <asio.hpp>
#include <cstdio>
#include <ctime>
#include <stdexcept>
#include <thread>
#include <vector>

#include "cbor.hpp"
#include "control_plane/coordinator.hpp"
#include "simulated_hosts.hpp"

namespace muster::bench {

class CoordinatorProcess {
 public:
  /// Forks, so construct it before this process has threads.
  CoordinatorProcess(int ranks, const control::Key& key) {
    int ends[2];
    if (::socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0 || (pid_ = ::fork()) < 0)
      throw std::runtime_error("cannot start a process");
    if (pid_ == 0) {
      ::close(ends[0]);
      ::_exit(serve(ends[1], ranks, key));
    }
    ::close(ends[1]);
    end_ = ends[0];
    if (!read_all(end_, &address_, sizeof address_)) throw std::runtime_error("rank 0 did not start");
  }
  ~CoordinatorProcess() {
    ::close(end_);
    ::waitpid(pid_, nullptr, 0);
  }
  CoordinatorProcess(const CoordinatorProcess&) = delete;
  CoordinatorProcess& operator=(const CoordinatorProcess&) = delete;

  /// Where rank 0 listens.
  struct Address {
    std::uint16_t port = 0;               // for other hosts' leaders
    std::array<char, 16> local_socket{};  // for the ranks of its host, with a null byte at the end
  };
  const Address& address() const { return address_; }
  /// Sends rank 0's own message.
  void send(const control::Message& message) const {
    auto const bytes = write_cbor(message);
    request(bytes.size(), bytes.data());
  }
  /// Waits until rank 0 has its own result.
  void wait_for_result() const {
    double nothing = 0;
    if (!read_all(end_, &nothing, sizeof nothing)) throw std::runtime_error("rank 0 ended");
  }
  /// Processor time of rank 0's control thread, in seconds. Do not call between send() and wait_for_result().
  double processor_time() const {
    double seconds = 0;
    request(0, nullptr);
    if (!read_all(end_, &seconds, sizeof seconds)) throw std::runtime_error("rank 0 ended");
    return seconds;
  }

 private:
  static bool read_all(int from, void* to, std::size_t bytes) {
    auto* at = static_cast<char*>(to);
    while (bytes > 0) {
      auto const got = ::read(from, at, bytes);
      if (got <= 0) return false;
      at += got;
      bytes -= static_cast<std::size_t>(got);
    }
    return true;
  }
  static void write_all(int to, const void* from, std::size_t bytes) {
    if (::send(to, from, bytes, MSG_NOSIGNAL) != static_cast<ssize_t>(bytes))
      throw std::runtime_error("rank 0 and its hosts lost each other");
  }
  void request(std::size_t length, const void* bytes) const {
    write_all(end_, &length, sizeof length);
    if (length > 0) write_all(end_, bytes, length);
  }

  static int serve(int end, int ranks, const control::Key& key) {
    try {
      asio::io_context io;
      control::Coordinator coordinator(
          io,
          [end](const control::Message&) {
            double const nothing = 0;
            write_all(end, &nothing, sizeof nothing);
          },
          make_roster(ranks), find_host_leaders(ranks), std::chrono::milliseconds{0});
      auto acceptor = std::make_unique<control::AuthenticatingAcceptor>(io);
      control::LocalListener listener;
      Address address{acceptor->port(), {}};
      listener.name().copy(address.local_socket.data(), address.local_socket.size() - 1);
      coordinator.open(std::move(acceptor), &listener, key, key);
      auto work = asio::make_work_guard(io);
      std::thread thread([&io] { io.run(); });
      write_all(end, &address, sizeof address);
      std::size_t length = 0;
      while (read_all(end, &length, sizeof length)) {
        std::vector<std::uint8_t> bytes(length);
        if (!read_all(end, bytes.data(), length)) break;
        if (length > 0) {
          asio::post(io, [&coordinator, message = read_cbor(bytes, "a message")] {
            coordinator.handle(0, message);
          });
          continue;
        }
        clockid_t clock{};
        timespec now{};
        ::pthread_getcpuclockid(thread.native_handle(), &clock);
        ::clock_gettime(clock, &now);
        double const seconds = static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
        write_all(end, &seconds, sizeof seconds);
      }
      asio::post(io, [&] {
        coordinator.close();
        work.reset();
      });
      thread.join();
      return 0;
    } catch (const std::exception& error) {
      std::fprintf(stderr, "control_plane_scale: rank 0: %s\n", error.what());
      return 1;
    }
  }

  pid_t pid_ = -1;
  int end_ = -1;
  Address address_;
};

}  // namespace muster::bench
