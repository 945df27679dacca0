// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/credential_frame.hpp"

#include <algorithm>
#include <utility>

namespace muster::bootstrap {
namespace {

constexpr std::array<std::uint8_t, 8> magic{'m', 'u', 's', 't', 'k', 'e', 'y', 1};

// The length of the credential after this header; 0 when it is not a header of Muster.
std::size_t credential_length(const CredentialFrame& frame) {
  if (!std::equal(magic.begin(), magic.end(), frame.header.begin())) return 0;
  std::size_t length = 0;
  for (int i = 3; i >= 0; --i)
    length = (length << 8) | frame.header[magic.size() + static_cast<std::size_t>(i)];
  return length;
}

}  // namespace

std::vector<std::uint8_t> make_frame(const std::vector<std::uint8_t>& credential) {
  std::vector<std::uint8_t> frame(magic.begin(), magic.end());
  for (int i = 0; i < 4; ++i) frame.push_back(static_cast<std::uint8_t>(credential.size() >> (8 * i)));
  frame.insert(frame.end(), credential.begin(), credential.end());
  return frame;
}

void read_frame(control::Socket& socket, const std::shared_ptr<CredentialFrame>& frame, std::size_t max_bytes,
                std::function<void(const std::string& error)> done) {
  asio::async_read(
      socket, asio::buffer(frame->header),
      [&socket, frame, max_bytes, done = std::move(done)](const asio::error_code& error, std::size_t) {
        if (error) return done(error == asio::error::eof ? "it closed the connection" : error.message());
        auto const length = credential_length(*frame);
        if (length == 0 || length > max_bytes) return done("not a frame of Muster");
        frame->credential.resize(length);
        asio::async_read(socket, asio::buffer(frame->credential),
                         [frame, done](const asio::error_code& failed, std::size_t) {
                           done(failed ? failed.message() : std::string());
                         });
      });
}

}  // namespace muster::bootstrap
