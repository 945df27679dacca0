// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "deadline.hpp"
#include "muster/error.hpp"

namespace muster::protocol {

/// A message on the wire: a CBOR map with the fields of a struct of messages.hpp, and with "type", its name.
using Message = nlohmann::json;

/// Bytes that CBOR writes as a byte string.
struct Blob : std::vector<std::uint8_t> {
  using std::vector<std::uint8_t>::vector;
  Blob(std::vector<std::uint8_t> bytes)  // NOLINT(google-explicit-constructor)
      : std::vector<std::uint8_t>(std::move(bytes)) {}
};

template <typename Struct>
Message encode(const Struct& message) {
  Message encoded(message);
  encoded["type"] = Struct::type;
  return encoded;
}

/// @throws Message::exception when a field is missing or of another type.
template <typename Struct>
Struct decode(const Message& message) {
  return message.get<Struct>();
}

/// The type's name.
/// @throws Message::exception when there is none.
inline const std::string& type_of(const Message& message) {
  return message.at("type").get_ref<const std::string&>();
}

/// Calls the handler for a message's type. Each handler gets `Context`, then the decoded message.
template <typename... Context>
class Dispatcher {
 public:
  /// Sets the handler of messages of type `Struct`.
  template <typename Struct, typename Handler>
  void on(Handler handler) {
    handlers_[Struct::type] = [handler = std::move(handler)](Context... context, const Message& message) {
      handler(context..., decode<Struct>(message));
    };
  }

  /// False when the type has no handler.
  /// @throws Message::exception for a malformed message, and what the handler throws.
  bool dispatch(Context... context, const Message& message) const {
    auto const found = handlers_.find(type_of(message));
    if (found == handlers_.end()) return false;
    found->second(context..., message);
    return true;
  }

 private:
  std::map<std::string, std::function<void(Context..., const Message&)>> handlers_;
};

}  // namespace muster::protocol

template <>
struct nlohmann::adl_serializer<muster::protocol::Blob> {
  static void to_json(json& value, const muster::protocol::Blob& blob) { value = json::binary(blob); }
  static void from_json(const json& value, muster::protocol::Blob& blob) { blob = {value.get_binary()}; }
};

/// A time from another process, which may be any number.
template <>
struct nlohmann::adl_serializer<std::chrono::milliseconds> {
  static void to_json(json& value, std::chrono::milliseconds time) { value = time.count(); }
  static void from_json(const json& value, std::chrono::milliseconds& time) {
    time = muster::Deadline(std::chrono::milliseconds(value.get<std::int64_t>())).length();
  }
};

template <>
struct nlohmann::adl_serializer<muster::ErrorCode> {
  static void to_json(json& value, muster::ErrorCode code) { value = static_cast<int>(code); }
  static void from_json(const json& value, muster::ErrorCode& code) {
    code = static_cast<muster::ErrorCode>(
        std::clamp(value.get<int>(), 0, static_cast<int>(muster::ErrorCode::system)));
  }
};
