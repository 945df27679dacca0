// SPDX-License-Identifier: Apache-2.0
#include "data/idx.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "files/output_file.hpp"
#include "muster/error.hpp"

namespace muster::data {
namespace {

constexpr std::uint8_t unsigned_bytes = 8;

[[noreturn]] void refuse_idx(const std::filesystem::path& path, const std::string& why) {
  throw Error(ErrorCode::usage, fmt::format("{} is not an IDX file of bytes: {}", path.string(), why));
}

std::size_t header_bytes(std::size_t dimensions) { return 4 + 4 * dimensions; }

std::uint64_t big_endian_at(std::span<const std::uint8_t> content, std::size_t at) {
  std::uint64_t number = 0;
  for (std::size_t byte = 0; byte < 4; ++byte) number = number << 8 | content[at + byte];
  return number;
}

}  // namespace

std::vector<std::uint64_t> idx_extents(std::span<const std::uint8_t> content, std::size_t dimensions,
                                       const std::filesystem::path& path) {
  const std::size_t header = header_bytes(dimensions);
  if (content.size() < header) {
    refuse_idx(path, fmt::format("it has {} bytes, fewer than the {} of a header with {} dimensions",
                                 content.size(), header, dimensions));
  }
  const std::uint64_t magic = big_endian_at(content, 0), expected = unsigned_bytes << 8 | dimensions;
  if (magic != expected) {
    refuse_idx(path, fmt::format("its number at byte 0 is 0x{:08x} and not 0x{:08x}{}", magic, expected,
                                 magic >> 16 == 0x1f8b ? " (it is compressed: gunzip it)" : ""));
  }
  std::vector<std::uint64_t> extents;
  const std::uint64_t bytes = content.size() - header;
  std::uint64_t product = 1;
  for (std::size_t i = 0; i < dimensions; ++i) {
    extents.push_back(big_endian_at(content, 4 + 4 * i));
    // A product above the file's size is wrong unless an extent of 0 follows, so it need not be exact there.
    if (extents.back() == 0)
      product = 0;
    else if (product > bytes || __builtin_mul_overflow(product, extents.back(), &product))
      product = bytes + 1;
  }
  if (product != bytes) {
    refuse_idx(path, fmt::format("its extents from byte 4 on are {}, but {} bytes follow the header",
                                 fmt::join(extents, " x "), bytes));
  }
  return extents;
}

void write_idx(const std::filesystem::path& path, std::span<const std::uint32_t> extents,
               std::span<const std::uint8_t> bytes) {
  std::vector<std::uint8_t> header{0, 0, unsigned_bytes, static_cast<std::uint8_t>(extents.size())};
  for (const std::uint32_t extent : extents) {
    for (int shift = 24; shift >= 0; shift -= 8) header.push_back(static_cast<std::uint8_t>(extent >> shift));
  }
  OutputFile file(path);
  file.write(header.data(), header.size());
  file.write(bytes.data(), bytes.size());
  file.commit();
}

LabelledImages LabelledImages::read(const std::filesystem::path& images, const std::filesystem::path& labels,
                                    std::uint64_t side, int classes) {
  LabelledImages read;
  read.image_file_ = std::make_shared<const MappedFile>(images);
  read.label_file_ = std::make_shared<const MappedFile>(labels);
  const auto extents = idx_extents(read.image_file_->bytes(), 3, images);
  const auto count = idx_extents(read.label_file_->bytes(), 1, labels)[0];
  if (extents[1] != side || extents[2] != side) {
    throw Error(ErrorCode::usage, fmt::format("{}: images of {} x {} pixels, but the model takes {} x {}",
                                              images.string(), extents[1], extents[2], side, side));
  }
  if (count != extents[0]) {
    throw Error(ErrorCode::usage, fmt::format("{} has {} labels for the {} images of {}", labels.string(),
                                              count, extents[0], images.string()));
  }
  if (count == 0) throw Error(ErrorCode::usage, fmt::format("{}: there is no image in it", images.string()));
  read.image_size_ = side * side;
  read.pixels_ = read.image_file_->bytes().subspan(header_bytes(3));
  read.labels_ = read.label_file_->bytes().subspan(header_bytes(1));
  const auto invalid = std::find_if(read.labels_.begin(), read.labels_.end(),
                                    [&](std::uint8_t label) { return label >= classes; });
  if (invalid != read.labels_.end()) {
    throw Error(ErrorCode::usage, fmt::format("{}: label {} at position {} is not below {}", labels.string(),
                                              *invalid, invalid - read.labels_.begin(), classes));
  }
  return read;
}

std::uint64_t LabelledImages::fingerprint(std::uint64_t seed) const noexcept {
  return label_file_->fingerprint(image_file_->fingerprint(seed));
}

LabelledSet ImageSet::read(const std::filesystem::path& folder, int side, int classes) {
  namespace fs = std::filesystem;
  for (const char* name : names) {
    std::error_code ignored;
    if (fs::exists(folder / name, ignored)) continue;
    const bool compressed = fs::exists(folder / (std::string(name) + ".gz"), ignored);
    throw Error(
        ErrorCode::usage,
        fmt::format("--data {}: there is no {} in it: {}", folder.string(), name,
                    compressed ? "gunzip the compressed file"
                               : "name a folder with MNIST's four files (muster-train make-data digits "
                                 "generates some)"));
  }
  const auto open = [&](std::size_t images) {
    return std::make_shared<const LabelledImages>(LabelledImages::read(
        folder / names[images], folder / names[images + 1], static_cast<std::uint64_t>(side), classes));
  };
  // Mean and standard deviation of MNIST's training pixels, as in Horovod's example.
  return {open(0), open(2), side, 1, classes, {0.1307f}, {0.3081f}};
}

}  // namespace muster::data
