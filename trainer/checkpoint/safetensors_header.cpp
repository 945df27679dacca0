// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/safetensors_header.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <stdexcept>

#include "text/printable.hpp"

namespace muster {
namespace {

using Json = nlohmann::json;

constexpr std::size_t max_dimensions = 8;

[[noreturn]] void refuse(const std::string& why) { throw std::runtime_error(why); }

std::uint64_t element_bytes(const std::string& type) {
  static const std::map<std::string, std::uint64_t> sizes{{"F64", 8}, {"F32", 4}, {"F16", 2}, {"BF16", 2},
                                                          {"I64", 8}, {"I32", 4}, {"I16", 2}, {"I8", 1},
                                                          {"U8", 1},  {"BOOL", 1}};
  const auto found = sizes.find(type);
  return found == sizes.end() ? 0 : found->second;
}

/// A name from a file, shortened, for a one-line message.
std::string printable_name(const std::string& name) { return printable(name.substr(0, 60)); }

void check_size(const SafetensorsTensor& tensor) {
  std::uint64_t size = element_bytes(tensor.type);
  if (size == 0)
    refuse(fmt::format("'{}' has the unknown type '{}'", printable_name(tensor.name),
                       printable_name(tensor.type)));
  for (const std::int64_t extent : tensor.shape) {
    if (__builtin_mul_overflow(size, static_cast<std::uint64_t>(extent), &size) || size > INT64_MAX)
      refuse(fmt::format("'{}' has a shape beyond any memory", printable_name(tensor.name)));
  }
  if (tensor.end < tensor.begin || tensor.end - tensor.begin != size)
    refuse(fmt::format("the bytes of '{}' do not match its shape", printable_name(tensor.name)));
}

/// Refuses names that occur twice, which nlohmann-json would accept, and nesting, while the text is parsed.
Json parse_strictly(std::string_view text) {
  std::set<std::string> names, fields;
  const auto check = [&](int depth, Json::parse_event_t event, const Json& parsed) {
    using Event = Json::parse_event_t;
    if ((event == Event::object_start && depth > 1) || (event == Event::array_start && depth != 2))
      refuse("its header has an object or an array where none belongs");
    if (event == Event::object_start) fields.clear();
    if (event != Event::key) return true;
    const auto name = parsed.get<std::string>();
    if (!(depth == 1 ? names : fields).insert(name).second)
      refuse(fmt::format("'{}' occurs twice", printable_name(name)));
    return true;
  };
  try {
    return Json::parse(text, check);
  } catch (const Json::exception&) {
    refuse("its header is not valid JSON");
  }
}

std::map<std::string, std::string> read_metadata(const Json& json) {
  try {
    return json.get<std::map<std::string, std::string>>();
  } catch (const Json::exception&) {
    refuse("its metadata are not texts by name");
  }
}

std::vector<std::int64_t> read_numbers(const std::string& name, const Json& array) {
  std::vector<std::int64_t> numbers;
  for (const Json& number : array) {
    if (!number.is_number_unsigned() || number.get<std::uint64_t>() > INT64_MAX)
      refuse(fmt::format("'{}' has a number that is negative, too large or none", printable_name(name)));
    numbers.push_back(number.get<std::int64_t>());
  }
  return numbers;
}

SafetensorsTensor read_tensor(const std::string& name, const Json& json) {
  const auto has = [&json](const char* field, Json::value_t type) {
    return json.contains(field) && json[field].type() == type;
  };
  if (!json.is_object() || json.size() != 3 || !has("dtype", Json::value_t::string) ||
      !has("shape", Json::value_t::array) || !has("data_offsets", Json::value_t::array))
    refuse(fmt::format("'{}' must have a dtype, a shape and data_offsets alone", printable_name(name)));
  const auto offsets = read_numbers(name, json["data_offsets"]);
  SafetensorsTensor tensor{name, json["dtype"].get<std::string>(), read_numbers(name, json["shape"])};
  if (offsets.size() != 2 || tensor.shape.size() > max_dimensions)
    refuse(fmt::format("'{}' has bad data_offsets or too many dimensions", printable_name(name)));
  tensor.begin = static_cast<std::uint64_t>(offsets[0]);
  tensor.end = static_cast<std::uint64_t>(offsets[1]);
  check_size(tensor);
  return tensor;
}

}  // namespace

SafetensorsHeader parse_safetensors_header(std::string_view text, std::uint64_t data_size) {
  if (text.empty() || text.front() != '{') refuse("its header does not begin with '{'");
  // nlohmann-json treats a NUL as the end of its input.
  if (text.find('\0') != text.npos) refuse("its header is not valid JSON");
  SafetensorsHeader header;
  const Json json = parse_strictly(text);
  for (const auto& [name, value] : json.items()) {
    if (name == "__metadata__")
      header.metadata = read_metadata(value);
    else
      header.tensors.push_back(read_tensor(name, value));
  }
  std::sort(header.tensors.begin(), header.tensors.end(), [](const auto& a, const auto& b) {
    return a.begin != b.begin ? a.begin < b.begin : a.end < b.end;
  });
  std::uint64_t next = 0;
  for (const auto& tensor : header.tensors) {
    if (tensor.begin != next)
      refuse(fmt::format("'{}' overlaps its neighbour or leaves a hole", printable_name(tensor.name)));
    next = tensor.end;
  }
  if (next != data_size) {
    refuse(fmt::format("its tensors take {} bytes, but {} follow the header (was it cut off?)", next,
                       data_size));
  }
  return header;
}

}  // namespace muster
