// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/safetensors.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>

#include "file/pread_all.hpp"
#include "files/output_file.hpp"
#include "muster/error.hpp"

namespace muster {
namespace {

using Json = nlohmann::json;
static_assert(std::endian::native == std::endian::little, "safetensors files are little-endian");

// The format allows 100 MB, for which the parser would need 2 GB. The largest model of muster-train, with
// 1024 layers, has a header of 5 MB.
constexpr std::uint64_t max_header_bytes = 10'000'000;

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
  OutputFile file(path);
  file.write(&length, sizeof length);
  file.write(text);
  for (const auto& tensor : tensors) file.write(tensor.data, tensor.size);
  file.commit();
}

// O_NONBLOCK: a named pipe without a writer is refused instead of waited for.
SafetensorsFile::SafetensorsFile(const std::filesystem::path& path)
    : path_(path), file_(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {
  if (!file_.valid())
    throw Error(ErrorCode::system, fmt::format("cannot open {}: {}", path.string(), std::strerror(errno)));
  read_header();
}

void SafetensorsFile::read_header() {
  struct stat status {};
  if (::fstat(file_.number(), &status) != 0 || !S_ISREG(status.st_mode)) refuse("not a regular file");
  const auto file_size = static_cast<std::uint64_t>(status.st_size);
  std::uint64_t length = 0;
  if (file_size < sizeof length) refuse("shorter than its header");
  read_at(0, &length, sizeof length);
  if (length > file_size - sizeof length) refuse("its header claims to be longer than the file");
  if (length > max_header_bytes)
    refuse("its header claims to be longer than 10 MB, more than any model needs");
  std::string text(length, '\0');
  read_at(sizeof length, text.data(), length);
  data_begin_ = sizeof length + length;
  try {
    header_ = parse_safetensors_header(text, file_size - data_begin_);
  } catch (const std::runtime_error& error) {
    refuse(error.what());
  }
}

void SafetensorsFile::refuse(const std::string& why) const {
  throw Error(ErrorCode::usage,
              fmt::format("{} is damaged or not a safetensors file: {}", path_.string(), why));
}

const SafetensorsTensor* SafetensorsFile::find(const std::string& name) const noexcept {
  const auto& all = tensors();
  const auto found =
      std::find_if(all.begin(), all.end(), [&](const auto& tensor) { return tensor.name == name; });
  return found == all.end() ? nullptr : &*found;
}

void SafetensorsFile::read(const SafetensorsTensor& tensor, void* to) const {
  read_at(data_begin_ + tensor.begin, to, tensor.end - tensor.begin);
}

void SafetensorsFile::read_at(std::uint64_t offset, void* to, std::uint64_t size) const {
  if (pread_all(file_.number(), offset, to, size)) return;
  if (errno == 0) refuse("it became shorter while it was read");
  throw Error(ErrorCode::system, fmt::format("cannot read {}: {}", path_.string(), std::strerror(errno)));
}

}  // namespace muster
