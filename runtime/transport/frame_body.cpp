// SPDX-License-Identifier: Apache-2.0
#include "transport/frame_body.hpp"

#include "cbor.hpp"
#include "muster/error.hpp"

namespace muster::control {
namespace {

using protocol::Message;

constexpr const char* payload = "payload";
constexpr std::uint8_t with_payload = 0;  // no CBOR map begins with it
constexpr std::size_t prefix_bytes = 5;
constexpr int max_depth = 7;

Message read_message(std::span<const std::uint8_t> bytes) {
  return read_cbor(bytes, "a control message", max_depth);
}

}  // namespace

std::vector<std::uint8_t> write_frame_body(const Message& message) {
  auto const found = message.find(payload);
  if (found == message.end() || !found->is_binary()) return write_cbor(message);
  Message rest = Message::object();
  for (const auto& [name, value] : message.items())
    if (name != payload) rest[name] = value;
  auto const header = write_cbor(rest);
  auto const& data = found->get_binary();
  std::vector<std::uint8_t> body{with_payload};
  body.reserve(prefix_bytes + header.size() + data.size());
  for (int i = 0; i < 4; ++i) body.push_back(static_cast<std::uint8_t>(header.size() >> (8 * i)));
  body.insert(body.end(), header.begin(), header.end());
  body.insert(body.end(), data.begin(), data.end());
  return body;
}

Message read_frame_body(std::span<const std::uint8_t> bytes) {
  if (bytes.empty() || bytes.front() != with_payload) return read_message(bytes);
  std::size_t length = 0;
  for (std::size_t i = prefix_bytes; i > 1 && bytes.size() >= prefix_bytes; --i)
    length = (length << 8) | bytes[i - 1];
  if (bytes.size() < prefix_bytes || length > bytes.size() - prefix_bytes)
    throw Error(ErrorCode::system, "a control message is shorter than it says");
  auto message = read_message(bytes.subspan(prefix_bytes, length));
  if (!message.is_object()) throw Error(ErrorCode::system, "a control message is no map");
  auto const data = bytes.subspan(prefix_bytes + length);
  message[payload] = Message::binary({data.begin(), data.end()});
  return message;
}

}  // namespace muster::control
