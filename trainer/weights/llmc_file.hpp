// SPDX-License-Identifier: Apache-2.0
// GPT-2's weights as karpathy/llm.c stores them: a header of 256 int32 (magic number, version, context,
// vocabulary, layers, heads, width, padded vocabulary), then the tensors.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <span>

#include "file/descriptor.hpp"
#include "weights/elements.hpp"
#include "weights/weight_source.hpp"

namespace muster::weights {

inline constexpr std::size_t llmc_header_bytes = 1024;

struct LlmcHeader {
  models::GptConfig config;
  ElementType type = ElementType::float32;
  std::int64_t padded_vocabulary = 0;  ///< rows of the embedding in the file
};
/// Parses the header of a file of `file_size` bytes. Versions: 1 (float32), 2 and 3 of its early writer
/// (float32, bfloat16), 3 and 5 (the same, with a padded vocabulary). Versions 3 are told apart by the file's
/// size, which must fit exactly.
/// @throws std::runtime_error with the reason, in one line.
LlmcHeader parse_llmc_header(std::span<const std::int32_t> header, std::uint64_t file_size);

class LlmcFile final : public WeightSource {
 public:
  /// @throws as open_weights().
  explicit LlmcFile(const std::filesystem::path& path);
  void read(std::span<float> parameters) const override;

 private:
  void read_at(std::uint64_t offset, void* to, std::uint64_t size) const;
  [[noreturn]] void refuse(const std::string& why) const;

  std::filesystem::path path_;
  Descriptor file_;
  LlmcHeader header_;
};

/// Writes version 3, in float32, or 5, in bfloat16, with a vocabulary padded by zeros to a multiple of 128,
/// as llm.c's train_gpt2 reads it. The file appears whole or not at all.
/// @throws muster::Error(ErrorCode::system)
void write_llmc_file(const std::filesystem::path& path, const models::GptConfig& config,
                     std::span<const float> parameters, ElementType type = ElementType::float32);

}  // namespace muster::weights
