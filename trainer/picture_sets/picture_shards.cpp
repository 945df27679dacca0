// SPDX-License-Identifier: Apache-2.0
#include "picture_sets/picture_shards.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string_view>

#include "files/hash.hpp"
#include "muster/error.hpp"
#include "picture_sets/class_folders.hpp"
#include "picture_sets/tar_members.hpp"
#include "text/lower_case.hpp"
#include "text/parse_number.hpp"
#include "text/printable.hpp"

namespace muster::picture_sets {
namespace {

/// A member's path up to the first dot of its base name, and the rest with the dot in small letters; an empty
/// rest when the base name has no dot or begins with it: then the member belongs to no sample.
std::pair<std::string, std::string> split_name(const std::string& name) {
  const std::size_t base = name.rfind('/') + 1;  // 0 without a slash
  const std::size_t dot = name.find('.', base);
  if (dot == std::string::npos || dot == base) return {};
  return {name.substr(0, dot), lower_case(name.substr(dot))};
}

class SampleReader {
 public:
  SampleReader(std::span<const std::uint8_t> content, const std::filesystem::path& path)
      : content_(content), path_(path) {}

  void add(const TarMember& member) {
    const auto [key, end] = split_name(member.name);
    if (end.empty()) return;
    if (key != key_) finish();
    key_ = key;
    if (is_picture_ending(end)) {
      if (picture_) refuse("has two pictures");
      picture_ = member;
    } else if (end == ".cls") {
      if (label_) refuse("has two labels");
      label_ = parse_label(member);
    }
  }
  void finish() {
    if (!key_) return;
    if (!picture_) refuse("has no picture (.jpg, .jpeg or .png)");
    if (!label_) refuse("has no label (.cls)");
    pictures_.push_back({*key_, *label_, picture_->offset, picture_->bytes});
    key_.reset();
    picture_.reset();
    label_.reset();
  }
  std::vector<ShardPicture> take() {
    finish();
    if (pictures_.empty())
      throw Error(ErrorCode::usage, fmt::format("the shard {} has no picture", path_.string()));
    return std::move(pictures_);
  }

 private:
  [[noreturn]] void refuse(const std::string& why) const {
    throw Error(ErrorCode::usage,
                printable(fmt::format("the shard {}: the sample {} {}", path_.string(), *key_, why)));
  }
  std::int64_t parse_label(const TarMember& member) const {
    std::string_view text{reinterpret_cast<const char*>(content_.data()) + member.offset, member.bytes};
    const std::size_t begin = std::min(text.find_first_not_of(" \t\r\n"), text.size());
    text.remove_prefix(begin);
    text = text.substr(0, text.find_last_not_of(" \t\r\n") + 1);
    const auto label = parse_number<std::int64_t>(text);
    if (!label || *label < 0 || *label >= compute::most_classes) {
      refuse(fmt::format("has the label '{}', which is no number from 0 to {}", text.substr(0, 40),
                         compute::most_classes - 1));
    }
    return *label;
  }

  std::span<const std::uint8_t> content_;
  const std::filesystem::path& path_;
  std::optional<std::string> key_;
  std::optional<TarMember> picture_;
  std::optional<std::int64_t> label_;
  std::vector<ShardPicture> pictures_;
};

}  // namespace

std::vector<ShardPicture> list_shard_pictures(std::span<const std::uint8_t> content,
                                              const std::filesystem::path& path) {
  SampleReader reader(content, path);
  for (const TarMember& member : list_tar_members(content, path)) reader.add(member);
  return reader.take();
}

PictureShards::PictureShards(const std::vector<std::filesystem::path>& paths) {
  for (const auto& path : paths) {
    shards_.push_back(std::make_unique<const data::MappedFile>(path));
    auto pictures = list_shard_pictures(shards_.back()->bytes(), path);
    std::move(pictures.begin(), pictures.end(), std::back_inserter(pictures_));
    ends_.push_back(pictures_.size());
  }
}

const data::MappedFile& PictureShards::shard(std::uint64_t picture) const {
  return *shards_[static_cast<std::size_t>(std::upper_bound(ends_.begin(), ends_.end(), picture) -
                                           ends_.begin())];
}

std::string PictureShards::name(std::uint64_t picture) const {
  return fmt::format("{} in {}", pictures_[picture].key, shard(picture).path().string());
}

std::span<const std::uint8_t> PictureShards::read(std::uint64_t picture,
                                                  std::vector<std::uint8_t>& buffer) const {
  const auto bytes = shard(picture).bytes().subspan(pictures_[picture].offset, pictures_[picture].bytes);
  buffer.assign(bytes.begin(), bytes.end());
  data::check_mapped_files();
  return buffer;
}

std::uint64_t PictureShards::fingerprint(std::uint64_t seed) const noexcept {
  for (const ShardPicture& picture : pictures_) {
    const std::uint64_t numbers[] = {static_cast<std::uint64_t>(picture.label), picture.bytes};
    seed = hash_bytes(numbers, sizeof numbers, hash_bytes(picture.key.data(), picture.key.size(), seed));
  }
  return seed;
}

}  // namespace muster::picture_sets
