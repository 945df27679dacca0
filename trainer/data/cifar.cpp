// SPDX-License-Identifier: Apache-2.0
#include "data/cifar.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "data/mapped_file.hpp"
#include "muster/error.hpp"

namespace muster::data {
namespace {

namespace fs = std::filesystem;

/// The records of several files, one file after the other.
class CifarImages final : public ImageSource {
 public:
  explicit CifarImages(const CifarFormat& format) : format_(format) {}

  void add(const fs::path& path) {
    files_.push_back(std::make_unique<const MappedFile>(path));
    counts_.push_back(count_cifar_records(files_.back()->bytes(), format_, path));
    count_ += counts_.back();
  }
  std::uint64_t count() const noexcept override { return count_; }
  compute::Token label(std::uint64_t image) const noexcept override {
    return record(image)[format_.label_bytes - 1];
  }
  std::span<const std::uint8_t> planes(std::uint64_t image) const noexcept override {
    return record(image).subspan(format_.label_bytes);
  }
  std::uint64_t fingerprint(std::uint64_t seed) const noexcept override {
    for (const auto& file : files_) seed = file->fingerprint(seed);
    return seed;
  }

 private:
  std::span<const std::uint8_t> record(std::uint64_t image) const noexcept {
    std::size_t file = 0;
    while (image >= counts_[file]) image -= counts_[file++];
    return files_[file]->bytes().subspan(image * format_.record_bytes(), format_.record_bytes());
  }

  const CifarFormat& format_;
  std::vector<std::unique_ptr<const MappedFile>> files_;
  std::vector<std::uint64_t> counts_;
  std::uint64_t count_ = 0;
};

bool has_file(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

std::shared_ptr<const ImageSource> open(const fs::path& folder, const CifarFormat& format,
                                        std::span<const char* const> names) {
  const auto images = std::make_shared<CifarImages>(format);
  for (const char* name : names) {
    if (!has_file(folder / name)) {
      throw Error(ErrorCode::usage, fmt::format("--data {}: there is no {} in it, one of CIFAR-{}'s files",
                                                folder.string(), name, format.classes));
    }
    images->add(folder / name);
  }
  return images;
}

}  // namespace

const CifarFormat& cifar10() {
  static const CifarFormat format{
      10,
      1,
      {"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin", "data_batch_4.bin", "data_batch_5.bin"},
      "test_batch.bin",
      {0.4914f, 0.4822f, 0.4465f},
      {0.2470f, 0.2435f, 0.2616f}};
  return format;
}

const CifarFormat& cifar100() {
  static const CifarFormat format{
      100, 2, {"train.bin"}, "test.bin", {0.5071f, 0.4865f, 0.4409f}, {0.2673f, 0.2564f, 0.2762f}};
  return format;
}

std::uint64_t count_cifar_records(std::span<const std::uint8_t> content, const CifarFormat& format,
                                  const fs::path& path) {
  const std::size_t size = format.record_bytes();
  if (content.empty() || content.size() % size != 0) {
    throw Error(ErrorCode::usage,
                fmt::format("{} is not a file of CIFAR-{}: it has {} bytes, not a multiple of {}",
                            path.string(), format.classes, content.size(), size));
  }
  for (std::size_t at = format.label_bytes - 1; at < content.size(); at += size) {
    if (content[at] < format.classes) continue;
    throw Error(ErrorCode::usage, fmt::format("{}: label {} at byte {} is not below {}", path.string(),
                                              content[at], at, format.classes));
  }
  return content.size() / size;
}

bool has_cifar_files(const fs::path& folder) {
  return has_file(folder / cifar10().training[0]) || has_file(folder / cifar100().training[0]);
}

bool has_both_cifar_parts(const fs::path& folder) {
  const auto has_both = [&](const CifarFormat& format) {
    return has_file(folder / format.training[0]) && has_file(folder / format.held_out);
  };
  return has_both(cifar10()) || has_both(cifar100());
}

LabelledSet read_cifar(const fs::path& folder) {
  if (!has_cifar_files(folder)) {
    throw Error(
        ErrorCode::usage,
        fmt::format("--data {}: there is no {} or {} in it: name a folder with CIFAR-10's or CIFAR-100's "
                    "binary files (muster-train make-data cifar generates some)",
                    folder.string(), cifar10().training[0], cifar100().training[0]));
  }
  const CifarFormat& format = has_file(folder / cifar10().training[0]) ? cifar10() : cifar100();
  LabelledSet read;
  read.training = open(folder, format, format.training);
  read.held_out = open(folder, format, std::span(&format.held_out, 1));
  read.side = cifar_side;
  read.classes = format.classes;
  read.mean = format.mean;
  read.deviation = format.deviation;
  return read;
}

}  // namespace muster::data
