// SPDX-License-Identifier: Apache-2.0
// The safetensors file format (https://huggingface.co/docs/safetensors): u64 little-endian header length,
// JSON header, tensors.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "checkpoint/safetensors_header.hpp"
#include "file/descriptor.hpp"

namespace muster {

/// One tensor to write.
struct SafetensorsSource {
  std::string name, type;
  std::vector<std::int64_t> shape;
  const void* data = nullptr;
  std::uint64_t size = 0;  ///< bytes
};
/// Writes the tensors one after the other; the file appears whole or not at all (OutputFile).
/// @throws muster::Error(ErrorCode::system)
void write_safetensors(const std::filesystem::path& path, const std::map<std::string, std::string>& metadata,
                       const std::vector<SafetensorsSource>& tensors);

/// A safetensors file, opened for reading. The constructor checks the whole header (parse_safetensors_header)
/// against the file's size. No allocation depends on sizes that the header claims.
class SafetensorsFile {
 public:
  /// @throws muster::Error: usage (not a safetensors file, and why), system (cannot be read).
  explicit SafetensorsFile(const std::filesystem::path& path);

  const std::map<std::string, std::string>& metadata() const noexcept { return header_.metadata; }
  /// In the order of the file.
  const std::vector<SafetensorsTensor>& tensors() const noexcept { return header_.tensors; }
  /// Null when there is no tensor of that name.
  const SafetensorsTensor* find(const std::string& name) const noexcept;
  /// Reads the tensor's end - begin bytes.
  void read(const SafetensorsTensor& tensor, void* to) const;

 private:
  void read_at(std::uint64_t offset, void* to, std::uint64_t size) const;
  [[noreturn]] void refuse(const std::string& why) const;
  void read_header();

  std::filesystem::path path_;
  Descriptor file_;
  std::uint64_t data_begin_ = 0;
  SafetensorsHeader header_;
};

}  // namespace muster
