// SPDX-License-Identifier: Apache-2.0
// Converts plain structs to bytes and back, between processes of one build. For each struct a function
// fields(record, value), found by the record's namespace, passes its members to the record, in both
// directions.
#pragma once

#include <cstdint>
#include <cstring>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "cpu_set/cpu_set.hpp"

namespace muster::spank {

/// The highest enumerator of an enumeration that records carry.
template <typename Enumeration>
constexpr Enumeration highest_enumerator();

class RecordWriter {
 public:
  static constexpr bool writes = true;

  template <typename... Values>
  void operator()(const Values&... values) {
    (add(values), ...);
  }
  std::string take() { return std::move(bytes_); }

 private:
  template <typename Value>
  void add(const Value& value) {
    if constexpr (std::is_arithmetic_v<Value> || std::is_enum_v<Value>)
      bytes_.append(reinterpret_cast<const char*>(&value), sizeof value);
    else
      fields(*this, value);
  }
  void add(const std::string& text) {
    add(static_cast<std::uint32_t>(text.size()));
    bytes_ += text;
  }
  void add(const CpuSet& cpus) { add(cpus.to_list()); }
  template <typename Value>
  void add(const std::optional<Value>& value) {
    add(value.has_value());
    if (value) add(*value);
  }
  template <typename Element>
  void add(const std::vector<Element>& list) {
    add(static_cast<std::uint32_t>(list.size()));
    for (const auto& element : list) add(element);
  }

  std::string bytes_;
};

/// Uses at most a few times the memory of its input.
/// @throws std::runtime_error if the bytes are no record of these fields.
class RecordReader {
 public:
  static constexpr bool writes = false;

  explicit RecordReader(std::string_view bytes) : left_(bytes) {}

  template <typename... Values>
  void operator()(Values&... values) {
    (get(values), ...);
  }
  /// Checks that no bytes are left.
  void end() const {
    if (!left_.empty()) refuse();
  }

 private:
  [[noreturn]] static void refuse() { throw std::runtime_error("the plan's record is damaged"); }

  std::string_view cut(std::size_t size) {
    if (size > left_.size()) refuse();
    const std::string_view part = left_.substr(0, size);
    left_.remove_prefix(size);
    return part;
  }
  std::uint32_t size() {
    std::uint32_t size = 0;
    get(size);
    if (size > left_.size()) refuse();  // every element takes at least one byte
    return size;
  }

  template <typename Value>
  void get(Value& value) {
    if constexpr (std::is_enum_v<Value>) {
      std::underlying_type_t<Value> number{};
      get(number);
      if (number < 0 || number > static_cast<std::underlying_type_t<Value>>(highest_enumerator<Value>()))
        refuse();
      value = static_cast<Value>(number);
    } else if constexpr (std::is_arithmetic_v<Value>) {
      std::memcpy(&value, cut(sizeof value).data(), sizeof value);
    } else {
      fields(*this, value);
    }
  }
  void get(bool& value) {
    const char byte = cut(1).front();
    if (byte != 0 && byte != 1) refuse();
    value = byte != 0;
  }
  void get(std::string& text) { text = cut(size()); }
  void get(CpuSet& cpus) {
    auto parsed = CpuSet::parse_list(cut(size()));
    if (!parsed) refuse();
    cpus = std::move(*parsed);
  }
  template <typename Value>
  void get(std::optional<Value>& value) {
    bool there = false;
    get(there);
    value.reset();
    if (!there) return;
    Value read{};
    get(read);
    value = std::move(read);
  }
  template <typename Element>
  void get(std::vector<Element>& list) {
    list.clear();
    for (std::uint32_t left = size(); left > 0; --left) get(list.emplace_back());
  }

  std::string_view left_;
};

/// The type of a value that fields() gets: const for a writer.
template <typename Record, typename Value>
using RecordValue = std::conditional_t<Record::writes, const Value, Value>;

/// Defines fields() for a struct. Name every member: one that is added later does not compile until it is
/// carried too. Stands in namespace muster::spank.
#define MUSTER_RECORD_FIELDS(Type, ...)                            \
  template <typename Record>                                       \
  void fields(Record& record, RecordValue<Record, Type>& object) { \
    auto& [__VA_ARGS__] = object;                                  \
    record(__VA_ARGS__);                                           \
  }

#define MUSTER_RECORD_ENUMERATION(Type, highest) \
  template <>                                    \
  constexpr Type highest_enumerator<Type>() {    \
    return Type::highest;                        \
  }

}  // namespace muster::spank
