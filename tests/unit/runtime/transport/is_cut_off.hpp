// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/socket.h>

#include <asio.hpp>
#include <cerrno>

/// Reads until the other side closes the connection. False when it does not within `seconds`.
inline bool is_cut_off(asio::ip::tcp::socket& socket, int seconds = 6) {
  timeval const limit{seconds, 0};
  ::setsockopt(socket.native_handle(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  char buffer[256];
  while (true) {
    auto const got = ::recv(socket.native_handle(), buffer, sizeof buffer, 0);
    if (got == 0) return true;
    if (got < 0) return errno == ECONNRESET;
  }
}
