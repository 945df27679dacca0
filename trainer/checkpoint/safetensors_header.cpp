// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/safetensors_header.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <stdexcept>

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

/// A name from a file, shortened and without control characters, for a one-line message.
std::string printable_name(const std::string& name) {
  std::string text = name.substr(0, 60);
  for (char& c : text) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = '?';
  }
  return text;
}

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

/// SAX handler that refuses at once what does not belong into the header, so no JSON document is built.
/// nlohmann-json prescribes the functions' names and signatures.
class HeaderReader {
 public:
  bool start_object(std::size_t) {
    if (depth_ > 1) unexpected();
    if (depth_ == 1 && in_metadata_) once(seen_metadata_, "an entry");
    if (depth_ == 1 && !in_metadata_) begin_tensor();
    ++depth_;
    return true;
  }
  bool end_object() {
    if (--depth_ == 1 && !in_metadata_) end_tensor();
    return true;
  }
  bool start_array(std::size_t) {
    if (depth_ != 2 || in_metadata_ || array_ || (key_ != "shape" && key_ != "data_offsets")) unexpected();
    array_ = true;
    return true;
  }
  bool end_array() {
    array_ = false;
    return true;
  }
  bool key(std::string& key) {
    if (depth_ == 1) {
      name_ = key;
      in_metadata_ = name_ == "__metadata__";
    } else if (!in_metadata_) {
      begin_field(key);
    }
    key_ = key;
    return true;
  }
  bool string(std::string& text) {
    if (depth_ != 2 || array_) unexpected();
    if (in_metadata_) {
      if (!header_.metadata.emplace(key_, text).second) refuse("its metadata has a key twice");
    } else {
      if (key_ != "dtype") unexpected();
      tensor_.type = text;
    }
    return true;
  }
  bool number_unsigned(Json::number_unsigned_t value) {
    if (!array_ || value > INT64_MAX) unexpected();
    if (key_ == "shape") {
      if (tensor_.shape.size() == max_dimensions)
        refuse(fmt::format("'{}' has a bad shape", printable_name(name_)));
      tensor_.shape.push_back(static_cast<std::int64_t>(value));
    } else {
      if (offsets_ == 2) refuse(fmt::format("'{}' has bad data_offsets", printable_name(name_)));
      (offsets_++ == 0 ? tensor_.begin : tensor_.end) = value;
    }
    return true;
  }
  bool number_integer(Json::number_integer_t) { return unexpected(); }
  bool number_float(Json::number_float_t, const std::string&) { return unexpected(); }
  bool boolean(bool) { return unexpected(); }
  bool null() { return unexpected(); }
  bool binary(Json::binary_t&) { return unexpected(); }
  bool parse_error(std::size_t, const std::string&, const nlohmann::detail::exception&) {
    refuse("its header is not valid JSON");
  }

  SafetensorsHeader take() { return std::move(header_); }

 private:
  [[noreturn]] bool unexpected() {
    refuse(depth_ == 0 ? "its header is not an object"
                       : fmt::format("'{}' has something that does not belong there", printable_name(name_)));
  }
  void once(bool& seen, const char* what) {
    if (seen) refuse(fmt::format("'{}' has {} twice", printable_name(name_), what));
    seen = true;
  }
  void begin_tensor() {
    tensor_ = {};
    tensor_.name = name_;
    seen_type_ = seen_shape_ = seen_offsets_ = false;
    offsets_ = 0;
  }
  void begin_field(const std::string& key) {
    if (key == "dtype") {
      once(seen_type_, "a dtype");
    } else if (key == "shape") {
      once(seen_shape_, "a shape");
    } else if (key == "data_offsets") {
      once(seen_offsets_, "data_offsets");
    } else {
      unexpected();
    }
  }
  void end_tensor() {
    if (!seen_type_ || !seen_shape_ || offsets_ != 2)
      refuse(fmt::format("'{}' has no dtype, shape or data_offsets", printable_name(name_)));
    check_size(tensor_);
    header_.tensors.push_back(std::move(tensor_));
  }

  SafetensorsHeader header_;
  int depth_ = 0;
  std::string name_, key_;  ///< at depth 1 and 2
  bool in_metadata_ = false, array_ = false, seen_metadata_ = false;
  SafetensorsTensor tensor_;
  bool seen_type_ = false, seen_shape_ = false, seen_offsets_ = false;
  int offsets_ = 0;
};

void check_names(const std::vector<SafetensorsTensor>& tensors) {
  std::vector<std::string_view> names;
  names.reserve(tensors.size());
  for (const auto& tensor : tensors) names.push_back(tensor.name);
  std::sort(names.begin(), names.end());
  if (std::adjacent_find(names.begin(), names.end()) != names.end()) refuse("a name occurs twice");
}

}  // namespace

SafetensorsHeader parse_safetensors_header(std::string_view text, std::uint64_t data_size) {
  if (text.empty() || text.front() != '{') refuse("its header does not begin with '{'");
  // nlohmann-json treats a NUL as the end of its input.
  if (text.find('\0') != text.npos) refuse("its header is not valid JSON");
  HeaderReader reader;
  Json::sax_parse(text, &reader);
  SafetensorsHeader header = reader.take();
  check_names(header.tensors);
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
