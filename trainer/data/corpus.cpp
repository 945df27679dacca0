// SPDX-License-Identifier: Apache-2.0
#include "data/corpus.hpp"

#include <fmt/format.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <set>

#include "hash.hpp"
#include "muster/error.hpp"

namespace muster::data {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void refuse(const fs::path& path, const std::string& why) {
  throw Error(Fault::usage, fmt::format("cannot read {}: {} (--data takes a text file or a folder of them)",
                                        path.string(), why));
}

std::set<fs::path> regular_files(const fs::path& path) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (error) refuse(path, error.message());
  if (fs::is_regular_file(status)) return {fs::canonical(path)};
  if (!fs::is_directory(status)) refuse(path, "neither a regular file nor a folder");
  std::set<fs::path> files;
  fs::recursive_directory_iterator entry(fs::canonical(path), error), end;
  if (error) refuse(path, error.message());
  while (entry != end) {
    std::error_code entry_error;
    if (entry->is_regular_file(entry_error)) files.insert(fs::canonical(entry->path()));
    entry.increment(error);
    if (error) refuse(path, error.message());
  }
  if (files.empty()) refuse(path, "there is no regular file in it");
  return files;
}

void append_file(const fs::path& path, std::vector<std::uint8_t>& bytes) {
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  const std::unique_ptr<std::FILE, Close> file(std::fopen(path.c_str(), "rbe"));
  if (!file) refuse(path, std::strerror(errno));
  constexpr std::size_t piece = 1 << 20;
  for (;;) {
    const std::size_t size = bytes.size();
    bytes.resize(size + piece);
    const std::size_t got = std::fread(bytes.data() + size, 1, piece, file.get());
    bytes.resize(size + got);
    if (got == piece) continue;
    if (std::ferror(file.get())) refuse(path, std::strerror(errno));
    return;
  }
}

}  // namespace

Corpus Corpus::read(const fs::path& path, double validation_fraction) {
  Corpus corpus;
  const auto files = regular_files(path);
  for (const auto& file : files) append_file(file, corpus.bytes_);
  corpus.file_count_ = files.size();
  if (corpus.bytes_.empty()) refuse(path, "it is empty");
  const auto held_out = static_cast<std::size_t>(static_cast<double>(corpus.size()) * validation_fraction);
  if (validation_fraction > 0 && held_out == 0) {
    refuse(path, fmt::format("it has only {} bytes, too few to hold out {:g} of them", corpus.size(),
                             validation_fraction));
  }
  corpus.training_size_ = corpus.size() - held_out;
  corpus.hash_ = hash_bytes(corpus.bytes_.data(), corpus.bytes_.size());
  return corpus;
}

std::span<const std::uint8_t> Corpus::held_out_with_lead() const noexcept {
  if (held_out_size() == 0) return {};
  return std::span(bytes_).subspan(training_size_ - 1);
}

}  // namespace muster::data
