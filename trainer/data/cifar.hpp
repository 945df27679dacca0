// SPDX-License-Identifier: Apache-2.0
// The binary files of CIFAR-10 and CIFAR-100 (A. Krizhevsky, "Learning Multiple Layers of Features from Tiny
// Images", 2009): records without a header. A record is the label (CIFAR-100: the coarse label, then the fine
// one) and 32 x 32 bytes of red, green and blue each.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

#include "data/image_source.hpp"

namespace muster::data {

inline constexpr int cifar_side = 32;
inline constexpr std::size_t cifar_pixels = 3 * cifar_side * cifar_side;

/// One of the two data sets.
struct CifarFormat {
  int classes;
  std::size_t label_bytes;  ///< the last one is the label that is predicted
  std::vector<const char*> training;
  const char* held_out;
  std::vector<float> mean, deviation;  ///< of the published training images

  std::size_t record_bytes() const { return label_bytes + cifar_pixels; }
};
const CifarFormat& cifar10();
const CifarFormat& cifar100();

/// Checks that a file consists of whole records with labels below the number of classes; returns their
/// number. `path` is for the message.
/// @throws muster::Error(ErrorCode::usage)
std::uint64_t count_cifar_records(std::span<const std::uint8_t> content, const CifarFormat& format,
                                  const std::filesystem::path& path);

/// Whether the folder has the first training file of either data set.
bool has_cifar_files(const std::filesystem::path& folder);
/// Whether it also has the file to validate with. Token shards are named train.bin, too.
bool has_both_cifar_parts(const std::filesystem::path& folder);

/// Opens the files of CIFAR-10 (data_batch_1.bin to data_batch_5.bin, test_batch.bin) or CIFAR-100
/// (train.bin, test.bin).
/// @throws muster::Error(ErrorCode::usage): a missing file, or as count_cifar_records().
LabelledSet read_cifar(const std::filesystem::path& folder);

}  // namespace muster::data
