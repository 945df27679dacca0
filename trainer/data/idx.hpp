// SPDX-License-Identifier: Apache-2.0
// IDX files of unsigned bytes, the format of MNIST (Y. LeCun, C. Cortes, C. Burges, "The MNIST database of
// handwritten digits"): two zero bytes, the type 8, the number of dimensions, each extent as a big-endian
// uint32, the bytes.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <vector>

#include "data/image_source.hpp"
#include "data/mapped_file.hpp"

namespace muster::data {

/// Checks the header of an IDX file of bytes with this number of dimensions (1 to 8), and that the extents
/// match the file's size exactly; returns the extents. `path` is for the message.
/// @throws muster::Error(ErrorCode::usage)
std::vector<std::uint64_t> idx_extents(std::span<const std::uint8_t> content, std::size_t dimensions,
                                       const std::filesystem::path& path);

/// Writes an IDX file atomically. The product of the extents must be the number of bytes.
/// @throws muster::Error(ErrorCode::system)
void write_idx(const std::filesystem::path& path, std::span<const std::uint32_t> extents,
               std::span<const std::uint8_t> bytes);

/// Memory-mapped gray images of one size with their labels.
class LabelledImages final : public ImageSource {
 public:
  /// @throws muster::Error(ErrorCode::usage): as idx_extents(), images that are not side x side pixels,
  /// another number of labels than images, a label that is not below `classes`, no image.
  static LabelledImages read(const std::filesystem::path& images, const std::filesystem::path& labels,
                             std::uint64_t side, int classes);

  std::uint64_t count() const noexcept override { return labels_.size(); }
  std::span<const std::uint8_t> planes(std::uint64_t image) const noexcept override {
    return pixels_.subspan(image * image_size_, image_size_);
  }
  compute::Token label(std::uint64_t image) const noexcept override { return labels_[image]; }
  std::uint64_t fingerprint(std::uint64_t seed) const noexcept override;

 private:
  std::shared_ptr<const MappedFile> image_file_, label_file_;
  std::span<const std::uint8_t> pixels_, labels_;
  std::uint64_t image_size_ = 0;
};

/// MNIST's four files.
struct ImageSet {
  /// MNIST's file names: training images and labels, validation images and labels.
  static constexpr std::array<const char*, 4> names{"train-images-idx3-ubyte", "train-labels-idx1-ubyte",
                                                    "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"};
  /// @throws muster::Error(ErrorCode::usage): a missing file (the message says when only the packed file
  /// exists), or as LabelledImages::read().
  static LabelledSet read(const std::filesystem::path& folder, int side, int classes);
};

}  // namespace muster::data
