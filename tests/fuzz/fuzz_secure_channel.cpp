// SPDX-License-Identifier: Apache-2.0
// Frames of an authenticated connection: raw bytes or, with a first byte of 1, the content of correctly
// encrypted frames.
#include <sodium.h>
#include <sys/socket.h>

#include "encrypted_frames.hpp"
#include "frames.hpp"
#include "transport/secure_channel.hpp"

using namespace muster;
using namespace muster::control;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  fuzz::Bytes sent;
  fuzz::FrameEncryptor encryptor{Key{}};
  if (data[0] == 1) {
    for (const auto& frame : fuzz::parse_frames(data + 1, size - 1)) encryptor.append(sent, frame.bytes);
  } else {
    sent.assign(data + 1, data + size);
  }
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0) std::abort();
  asio::io_context io;
  auto const channel = std::make_shared<SecureChannel>(
      Socket(io, Endpoint(asio::local::stream_protocol::endpoint()).protocol(), ends[0]), SessionKeys{});
  asio::local::stream_protocol::socket other(io, asio::local::stream_protocol(), ends[1]);
  asio::async_write(other, asio::buffer(sent), [&](const asio::error_code&, std::size_t) { other.close(); });
  bool ended = false;
  channel->start([&](const Message& message) { channel->send(message); },
                 [&](const std::string&) { ended = true; });
  io.run();
  if (!ended) std::abort();
  return 0;
}
