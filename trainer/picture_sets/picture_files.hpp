// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "picture_sets/picture_source.hpp"

namespace muster::picture_sets {

/// A picture's file, by its path below a folder.
struct PictureFile {
  std::string path;
  std::int64_t label = 0;
  std::uint64_t bytes = 0;
  std::size_t line = 0;  ///< of the list that names it; 0: no list
};

/// Pictures that are files of their own.
class PictureFiles final : public PictureSource {
 public:
  /// Takes each file's size. `list`: for messages.
  /// @throws muster::Error(ErrorCode::usage): a file that is missing, no regular one, or larger than 1 GiB.
  PictureFiles(std::filesystem::path folder, std::vector<PictureFile> files,
               const std::filesystem::path& list = {});

  std::uint64_t count() const noexcept override { return files_.size(); }
  compute::Token label(std::uint64_t picture) const noexcept override {
    return static_cast<compute::Token>(files_[picture].label);
  }
  std::string name(std::uint64_t picture) const override { return path(files_[picture]).string(); }
  std::span<const std::uint8_t> read(std::uint64_t picture, std::vector<std::uint8_t>& buffer) const override;
  std::uint64_t fingerprint(std::uint64_t seed) const noexcept override;

 private:
  std::filesystem::path path(const PictureFile& file) const { return folder_ / file.path; }

  std::filesystem::path folder_;
  std::vector<PictureFile> files_;
};

}  // namespace muster::picture_sets
