// SPDX-License-Identifier: Apache-2.0
#include "weights/llmc_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <bit>
#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <vector>

#include "file/pread_all.hpp"
#include "files/output_file.hpp"
#include "muster/error.hpp"
#include "weights/gpt_names.hpp"

namespace muster::weights {
namespace {

static_assert(std::endian::native == std::endian::little, "llm.c's files are little-endian");

constexpr std::int32_t magic = 20240326, float32_version = 3, bfloat16_version = 5;
constexpr std::size_t header_numbers = llmc_header_bytes / sizeof(std::int32_t);
constexpr std::int64_t vocabulary_multiple = 128;

std::int64_t padded(std::int64_t vocabulary) {
  return (vocabulary + vocabulary_multiple - 1) / vocabulary_multiple * vocabulary_multiple;
}

std::uint64_t size_of_file(const LlmcHeader& header) {
  const auto elements = static_cast<std::int64_t>(models::gpt_tensors(header.config).parameter_count) +
                        (header.padded_vocabulary - header.config.vocabulary) * header.config.width;
  return llmc_header_bytes + static_cast<std::uint64_t>(elements) * bytes_of(header.type);
}

/// The layouts that files of this version may have.
std::vector<LlmcHeader> layouts_of(std::int32_t version, const models::GptConfig& config,
                                   std::int64_t padded_vocabulary) {
  const LlmcHeader plain{config, ElementType::float32, config.vocabulary},
      plain_bfloat16{config, ElementType::bfloat16, config.vocabulary},
      wide{config, ElementType::float32, padded_vocabulary},
      wide_bfloat16{config, ElementType::bfloat16, padded_vocabulary};
  switch (version) {
    case 1:
    case 2:
      return {plain};
    case 3:
      return {wide, plain_bfloat16};
    case 5:
      return {wide_bfloat16};
    default:
      throw std::runtime_error(fmt::format("its version is {}, and 1, 2, 3 and 5 are known", version));
  }
}

}  // namespace

LlmcHeader parse_llmc_header(std::span<const std::int32_t> header, std::uint64_t file_size) {
  if (header[0] != magic) {
    throw std::runtime_error(
        fmt::format("its first number is {}, and not {} as in llm.c's GPT-2 models", header[0], magic));
  }
  const models::GptConfig config{header[4], header[5], header[6], header[2], header[3]};
  if (const std::string problem = models::size_problem(config); !problem.empty())
    throw std::runtime_error(problem);
  for (const LlmcHeader& layout : layouts_of(header[1], config, header[7])) {
    const bool plausible = layout.padded_vocabulary >= config.vocabulary &&
                           layout.padded_vocabulary <= config.vocabulary + 65536;
    if (plausible && size_of_file(layout) == file_size) return layout;
  }
  throw std::runtime_error(
      fmt::format("its {} bytes do not fit the sizes in its header ({}; was it cut off?)", file_size,
                  models::gpt_text(config)));
}

LlmcFile::LlmcFile(const std::filesystem::path& path)
    : path_(path), file_(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {
  if (!file_.valid())
    throw Error(ErrorCode::system, fmt::format("cannot open {}: {}", path.string(), std::strerror(errno)));
  struct stat status {};
  if (::fstat(file_.number(), &status) != 0 || !S_ISREG(status.st_mode)) refuse("not a regular file");
  const auto size = static_cast<std::uint64_t>(status.st_size);
  std::array<std::int32_t, header_numbers> numbers{};
  if (size < llmc_header_bytes) refuse("it is shorter than a header");
  read_at(0, numbers.data(), llmc_header_bytes);
  try {
    header_ = parse_llmc_header(numbers, size);
  } catch (const std::runtime_error& reason) {
    refuse(reason.what());
  }
  config_ = header_.config;
}

void LlmcFile::refuse(const std::string& why) const {
  throw Error(ErrorCode::usage, fmt::format("{} is damaged or no model of llm.c: {}", path_.string(), why));
}

void LlmcFile::read_at(std::uint64_t offset, void* to, std::uint64_t size) const {
  if (pread_all(file_.number(), offset, to, size)) return;
  if (errno == 0) refuse("it became shorter while it was read");
  throw Error(ErrorCode::system, fmt::format("cannot read {}: {}", path_.string(), std::strerror(errno)));
}

void LlmcFile::read(std::span<float> parameters) const {
  const auto table = models::gpt_tensors(config_).tensors;
  const std::size_t width = bytes_of(header_.type);
  std::uint64_t at = llmc_header_bytes;
  std::vector<char> bytes;
  for (const std::size_t i : llmc_order(config_)) {
    bytes.resize(table[i].count * width);
    read_at(at, bytes.data(), bytes.size());
    widen_elements(header_.type, bytes.data(), table[i].count, parameters.data() + table[i].offset);
    at += bytes.size();
    if (i == 0)
      at += static_cast<std::uint64_t>((header_.padded_vocabulary - config_.vocabulary) * config_.width) *
            width;
  }
}

void write_llmc_file(const std::filesystem::path& path, const models::GptConfig& config,
                     std::span<const float> parameters, ElementType type) {
  std::array<std::int32_t, header_numbers> header{};
  const std::int64_t rows = padded(config.vocabulary);
  const std::int32_t numbers[] = {
      magic,          type == ElementType::bfloat16 ? bfloat16_version : float32_version,
      config.context, config.vocabulary,
      config.layers,  config.heads,
      config.width,   static_cast<std::int32_t>(rows)};
  std::copy(std::begin(numbers), std::end(numbers), header.begin());
  const auto table = models::gpt_tensors(config).tensors;
  OutputFile file(path);
  file.write(header.data(), llmc_header_bytes);
  for (const std::size_t i : llmc_order(config)) {
    const auto bytes = narrow_elements(type, parameters.subspan(table[i].offset, table[i].count));
    file.write(bytes.data(), bytes.size());
    if (i != 0) continue;
    const std::vector<char> padding(static_cast<std::size_t>((rows - config.vocabulary) * config.width) *
                                    bytes_of(type));
    file.write(padding.data(), padding.size());
  }
  file.commit();
}

}  // namespace muster::weights
