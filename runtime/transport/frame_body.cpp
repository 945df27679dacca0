// SPDX-License-Identifier: Apache-2.0
#include "transport/frame_body.hpp"

#include "cbor.hpp"
#include "muster/error.hpp"

namespace muster::control {
namespace {

using protocol::Message;
using Bytes = std::vector<std::uint8_t>;

constexpr std::uint8_t with_byte_strings = 0;  // no CBOR map begins with it
constexpr std::size_t prefix_bytes = 5;
constexpr std::size_t length_bytes = 4;
constexpr int max_depth = 7;

Bytes little_endian(std::size_t length) {
  Bytes bytes;
  for (std::size_t i = 0; i < length_bytes; ++i)
    bytes.push_back(static_cast<std::uint8_t>(length >> (8 * i)));
  return bytes;
}

std::size_t read_little_endian(std::span<const std::uint8_t> bytes) {
  std::size_t length = 0;
  for (std::size_t i = length_bytes; i > 0; --i) length = (length << 8) | bytes[i - 1];
  return length;
}

// The message with each byte string's length in its place. `taken` gets the byte strings, in the map's order.
Message take_byte_strings(const Message& message, std::vector<const Bytes*>& taken) {
  if (message.is_binary()) {
    taken.push_back(&message.get_binary());
    return Message::binary(little_endian(taken.back()->size()));
  }
  if (!message.is_structured()) return message;
  Message copy = message.is_array() ? Message::array() : Message::object();
  for (const auto& [name, value] : message.items()) {
    auto part = take_byte_strings(value, taken);
    if (message.is_array())
      copy.push_back(std::move(part));
    else
      copy[name] = std::move(part);
  }
  return copy;
}

// Puts them back. `data` begins with the first one that is still missing.
void put_byte_strings(Message& message, std::span<const std::uint8_t>& data) {
  if (message.is_structured())
    for (auto& value : message) put_byte_strings(value, data);
  if (!message.is_binary()) return;
  auto& bytes = message.get_binary();
  auto const length = bytes.size() == length_bytes ? read_little_endian(bytes) : data.size() + 1;
  if (length > data.size()) throw Error(ErrorCode::system, "a control message is shorter than it says");
  bytes.assign(data.begin(), data.begin() + static_cast<std::ptrdiff_t>(length));
  data = data.subspan(length);
}

Message read_message(std::span<const std::uint8_t> bytes) {
  return read_cbor(bytes, "a control message", max_depth);
}

}  // namespace

Bytes write_frame_body(const Message& message) {
  std::vector<const Bytes*> byte_strings;
  auto header = write_cbor(take_byte_strings(message, byte_strings));
  if (byte_strings.empty()) return header;
  auto size = prefix_bytes + header.size();
  for (const auto* bytes : byte_strings) size += bytes->size();
  Bytes body{with_byte_strings};
  body.reserve(size);
  auto const append = [&](const Bytes& bytes) { body.insert(body.end(), bytes.begin(), bytes.end()); };
  append(little_endian(header.size()));
  append(header);
  for (const auto* bytes : byte_strings) append(*bytes);
  return body;
}

Message read_frame_body(std::span<const std::uint8_t> bytes) {
  if (bytes.empty() || bytes.front() != with_byte_strings) return read_message(bytes);
  auto const length = bytes.size() < prefix_bytes ? bytes.size() : read_little_endian(bytes.subspan(1));
  if (bytes.size() < prefix_bytes || length > bytes.size() - prefix_bytes)
    throw Error(ErrorCode::system, "a control message is shorter than it says");
  auto message = read_message(bytes.subspan(prefix_bytes, length));
  auto data = bytes.subspan(prefix_bytes + length);
  put_byte_strings(message, data);
  if (!data.empty()) throw Error(ErrorCode::system, "a control message is longer than it says");
  return message;
}

}  // namespace muster::control
