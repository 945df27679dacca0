// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "data/mapped_file.hpp"
#include "picture_sets/picture_source.hpp"

namespace muster::picture_sets {

/// A picture in a shard, and its label.
struct ShardPicture {
  std::string key;
  std::int64_t label = 0;
  std::uint64_t offset = 0, bytes = 0;
};

/// The samples of a tar archive as WebDataset writes them: files that stand together and have the same path
/// up to the first dot of the base name; of each a picture (.jpg, .jpeg or .png) and a label (.cls, a
/// number). Other files of a sample are left out. `path` is for the message.
/// @throws muster::Error(ErrorCode::usage): as list_tar_members(), a sample without picture or label or with
/// two of them, a label that is no number from 0 on.
std::vector<ShardPicture> list_shard_pictures(std::span<const std::uint8_t> content,
                                              const std::filesystem::path& path);

/// The pictures of several shards, one shard after the other.
class PictureShards final : public PictureSource {
 public:
  /// @throws muster::Error(ErrorCode::usage) as MappedFile and list_shard_pictures() do.
  explicit PictureShards(const std::vector<std::filesystem::path>& paths);

  std::uint64_t count() const noexcept override { return pictures_.size(); }
  compute::Token label(std::uint64_t picture) const noexcept override {
    return static_cast<compute::Token>(pictures_[picture].label);
  }
  std::string name(std::uint64_t picture) const override;
  std::span<const std::uint8_t> read(std::uint64_t picture, std::vector<std::uint8_t>& buffer) const override;
  std::uint64_t fingerprint(std::uint64_t seed) const noexcept override;

 private:
  const data::MappedFile& shard(std::uint64_t picture) const;

  std::vector<std::unique_ptr<const data::MappedFile>> shards_;
  std::vector<std::uint64_t> ends_;  ///< number of the first picture behind each shard
  std::vector<ShardPicture> pictures_;
};

}  // namespace muster::picture_sets
