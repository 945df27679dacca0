// SPDX-License-Identifier: Apache-2.0
#include "safetensors.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>
#include <set>

#include "atomic_file.hpp"
#include "muster/error.hpp"

namespace muster {
namespace {

using Json = nlohmann::json;
static_assert(std::endian::native == std::endian::little, "safetensors files are little-endian");

// The reference implementation takes 100 MB; parsed JSON needs many times its text, and ours has a hundred
// bytes for a tensor.
constexpr std::uint64_t largest_header = 25'000'000;
constexpr std::size_t largest_rank = 8;

std::uint64_t size_of_type(const std::string& type) {
  static const std::map<std::string, std::uint64_t> sizes{{"F64", 8}, {"F32", 4}, {"F16", 2}, {"BF16", 2},
                                                          {"I64", 8}, {"I32", 4}, {"I16", 2}, {"I8", 1},
                                                          {"U8", 1},  {"BOOL", 1}};
  const auto found = sizes.find(type);
  return found == sizes.end() ? 0 : found->second;
}

/// A name from a file, fit for a one-line message.
std::string shown(const std::string& name) {
  std::string text = name.substr(0, 60);
  for (char& c : text) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = '?';
  }
  return text;
}

/// Parses with a check that nlohmann-json leaves to its callers: no key twice in the outer object.
Json parse_without_duplicates(const std::string& text) {
  std::set<std::string> names;
  bool twice = false;
  Json parsed = Json::parse(text, [&](int depth, Json::parse_event_t event, Json& value) {
    if (event == Json::parse_event_t::key && depth == 1)
      twice |= !names.insert(value.get<std::string>()).second;
    return true;
  });
  if (twice) throw std::runtime_error("a name comes twice");
  return parsed;
}

SafetensorsTensor parse_tensor(const std::string& name, const Json& entry) {
  SafetensorsTensor tensor;
  tensor.name = name;
  if (!entry.is_object()) throw std::runtime_error(fmt::format("'{}' is not an object", shown(name)));
  tensor.type = entry.at("dtype").get<std::string>();
  const std::uint64_t element = size_of_type(tensor.type);
  if (element == 0)
    throw std::runtime_error(fmt::format("'{}' has the unknown type '{}'", shown(name), shown(tensor.type)));
  const Json& shape = entry.at("shape");
  const Json& offsets = entry.at("data_offsets");
  if (!shape.is_array() || shape.size() > largest_rank)
    throw std::runtime_error(fmt::format("'{}' has a bad shape", shown(name)));
  std::uint64_t size = element;
  for (const Json& extent : shape) {
    if (!extent.is_number_unsigned())
      throw std::runtime_error(fmt::format("'{}' has a bad shape", shown(name)));
    const auto value = extent.get<std::uint64_t>();
    if (__builtin_mul_overflow(size, value, &size) || size > INT64_MAX) {
      throw std::runtime_error(fmt::format("'{}' has a shape beyond any memory", shown(name)));
    }
    tensor.shape.push_back(static_cast<std::int64_t>(value));
  }
  if (!offsets.is_array() || offsets.size() != 2 || !offsets[0].is_number_unsigned() ||
      !offsets[1].is_number_unsigned()) {
    throw std::runtime_error(fmt::format("'{}' has bad data_offsets", shown(name)));
  }
  tensor.begin = offsets[0].get<std::uint64_t>();
  tensor.end = offsets[1].get<std::uint64_t>();
  if (tensor.end < tensor.begin || tensor.end - tensor.begin != size) {
    throw std::runtime_error(fmt::format("the bytes of '{}' do not match its shape", shown(name)));
  }
  return tensor;
}

}  // namespace

void write_safetensors(const std::filesystem::path& path, const std::map<std::string, std::string>& metadata,
                       const std::vector<SafetensorsSource>& tensors) {
  Json header = Json::object();
  header["__metadata__"] = metadata;
  std::uint64_t offset = 0;
  for (const auto& tensor : tensors) {
    header[tensor.name] = {
        {"dtype", tensor.type}, {"shape", tensor.shape}, {"data_offsets", {offset, offset + tensor.size}}};
    offset += tensor.size;
  }
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');  // the format pads with spaces so that tensors are aligned
  const std::uint64_t length = text.size();
  AtomicFile file(path);
  file.write(&length, sizeof length);
  file.write(text);
  for (const auto& tensor : tensors) file.write(tensor.data, tensor.size);
  file.commit();
}

SafetensorsFile::SafetensorsFile(const std::filesystem::path& path) : path_(path) {
  descriptor_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor_ < 0)
    throw Error(Fault::system, fmt::format("cannot open {}: {}", path.string(), std::strerror(errno)));
  try {
    struct stat status {};
    if (::fstat(descriptor_, &status) != 0 || !S_ISREG(status.st_mode)) refuse("not a regular file");
    const auto file_size = static_cast<std::uint64_t>(status.st_size);
    std::uint64_t length = 0;
    if (file_size < sizeof length) refuse("shorter than its header");
    read_at(0, &length, sizeof length);
    if (length > largest_header || length > file_size - sizeof length)
      refuse("its header claims to be longer than the file");
    std::string text(length, '\0');
    read_at(sizeof length, text.data(), length);
    data_begin_ = sizeof length + length;
    try {
      parse_header(text, file_size - data_begin_);
    } catch (const Json::exception&) {
      refuse("its header is not valid JSON of the expected form");
    } catch (const Error&) {
      throw;
    } catch (const std::runtime_error& error) {
      refuse(error.what());
    }
  } catch (...) {
    ::close(descriptor_);
    throw;
  }
}

SafetensorsFile::~SafetensorsFile() { ::close(descriptor_); }

void SafetensorsFile::refuse(const std::string& why) const {
  throw Error(Fault::usage, fmt::format("{} is damaged or no safetensors file: {}", path_.string(), why));
}

void SafetensorsFile::parse_header(const std::string& text, std::uint64_t data_size) {
  if (text.empty() || text.front() != '{') refuse("its header does not begin with '{'");
  const Json header = parse_without_duplicates(text);
  for (const auto& [name, entry] : header.items()) {
    if (name == "__metadata__") {
      metadata_ = entry.get<std::map<std::string, std::string>>();
    } else {
      tensors_.push_back(parse_tensor(name, entry));
    }
  }
  std::sort(tensors_.begin(), tensors_.end(), [](const auto& a, const auto& b) {
    return a.begin != b.begin ? a.begin < b.begin : a.end < b.end;
  });
  std::uint64_t next = 0;
  for (const auto& tensor : tensors_) {
    if (tensor.begin != next)
      refuse(fmt::format("'{}' overlaps its neighbour or leaves a hole", shown(tensor.name)));
    next = tensor.end;
  }
  if (next != data_size) {
    refuse(fmt::format("its tensors take {} bytes, but {} follow the header (was it cut off?)", next,
                       data_size));
  }
}

const SafetensorsTensor* SafetensorsFile::find(const std::string& name) const noexcept {
  const auto found =
      std::find_if(tensors_.begin(), tensors_.end(), [&](const auto& tensor) { return tensor.name == name; });
  return found == tensors_.end() ? nullptr : &*found;
}

void SafetensorsFile::read(const SafetensorsTensor& tensor, void* to) const {
  read_at(data_begin_ + tensor.begin, to, tensor.end - tensor.begin);
}

void SafetensorsFile::read_at(std::uint64_t offset, void* to, std::uint64_t size) const {
  char* at = static_cast<char*>(to);
  while (size > 0) {
    const ssize_t done = ::pread(descriptor_, at, size, static_cast<off_t>(offset));
    if (done < 0 && errno == EINTR) continue;
    if (done < 0)
      throw Error(Fault::system, fmt::format("cannot read {}: {}", path_.string(), std::strerror(errno)));
    if (done == 0) refuse("it became shorter while it was read");
    at += done;
    offset += static_cast<std::uint64_t>(done);
    size -= static_cast<std::uint64_t>(done);
  }
}

}  // namespace muster
