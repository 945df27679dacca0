// SPDX-License-Identifier: Apache-2.0
#include "picture_sets/picture_set.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <numeric>
#include <optional>
#include <utility>

#include "data/files.hpp"
#include "data/mapped_file.hpp"
#include "muster/error.hpp"
#include "picture_sets/class_folders.hpp"
#include "picture_sets/picture_files.hpp"
#include "picture_sets/picture_list.hpp"
#include "picture_sets/picture_shards.hpp"
#include "text/printable.hpp"

namespace muster::picture_sets {
namespace {

namespace fs = std::filesystem;
using Source = std::shared_ptr<const PictureSource>;

[[noreturn]] void refuse(const std::string& data, const std::string& why) {
  throw Error(ErrorCode::usage, printable(fmt::format("--data {}: {}", data, why)));
}

/// Some of the pictures of a source, and labels that are smaller by `first_label`.
class SelectedPictures final : public PictureSource {
 public:
  SelectedPictures(Source source, std::vector<std::uint64_t> pictures, compute::Token first_label)
      : source_(std::move(source)), pictures_(std::move(pictures)), first_label_(first_label) {}

  std::uint64_t count() const noexcept override { return pictures_.size(); }
  compute::Token label(std::uint64_t picture) const noexcept override {
    return source_->label(pictures_[picture]) - first_label_;
  }
  std::string name(std::uint64_t picture) const override { return source_->name(pictures_[picture]); }
  std::span<const std::uint8_t> read(std::uint64_t picture,
                                     std::vector<std::uint8_t>& buffer) const override {
    return source_->read(pictures_[picture], buffer);
  }
  std::uint64_t fingerprint(std::uint64_t seed) const noexcept override {
    return source_->fingerprint(seed ^ pictures_.size());
  }

 private:
  Source source_;
  std::vector<std::uint64_t> pictures_;
  compute::Token first_label_;
};

bool is_folder(const fs::path& path) {
  std::error_code ignored;
  return fs::is_directory(path, ignored);
}

bool is_shard(const fs::path& path) { return path.extension() == ".tar"; }

/// The shards that `data` names; empty if it names something else.
std::vector<fs::path> find_shards(const std::string& data) {
  std::vector<fs::path> shards;
  if (is_folder(data)) {
    std::error_code ignored;
    for (const fs::directory_entry& entry : fs::directory_iterator(data, ignored)) {
      if (is_shard(entry.path())) shards.push_back(entry.path());
    }
    std::sort(shards.begin(), shards.end());
    return shards;
  }
  for (const auto& [real, name] : data::find_data_files(data)) {
    if (is_shard(name)) shards.push_back(name);
  }
  return shards;
}

/// Opens one part of the data; `classes` are the names of the folders.
Source open_part(const std::string& data, const std::string& column, std::vector<std::string>& classes) {
  const std::vector<fs::path> shards = find_shards(data);
  const bool is_list = shards.empty() && !is_folder(data);
  if (!column.empty() && !is_list) refuse(data, "--label-column has a meaning for a list only: leave it out");
  if (!shards.empty()) return std::make_shared<PictureShards>(shards);
  if (is_list) {
    const data::MappedFile list(data);
    const std::string_view text(reinterpret_cast<const char*>(list.bytes().data()), list.bytes().size());
    return std::make_shared<PictureFiles>(fs::path(data).parent_path(),
                                          parse_picture_list(text, column, data), data);
  }
  if (classes.empty()) classes = list_classes(data);
  if (classes.empty()) {
    refuse(data,
           "there are neither folders of classes, tar shards nor CIFAR's files in it (muster-train "
           "make-data pictures or cifar generates some)");
  }
  return std::make_shared<PictureFiles>(data, list_class_files(data, classes));
}

/// The folders of a folder with both parts.
std::optional<std::pair<std::string, std::string>> find_parts(const std::string& data) {
  const fs::path folder(data);
  for (const char* held_out : {"val", "validation", "test"}) {
    if (is_folder(folder / "train") && is_folder(folder / held_out))
      return std::pair{(folder / "train").string(), (folder / held_out).string()};
  }
  return std::nullopt;
}

/// The number of each picture when they are sorted by label.
std::vector<std::uint64_t> number_by_label(const PictureSource& source) {
  std::map<compute::Token, std::uint64_t> next;
  for (std::uint64_t i = 0; i < source.count(); ++i) ++next[source.label(i)];
  std::uint64_t before = 0;
  for (auto& [label, count] : next) before += std::exchange(count, before);
  std::vector<std::uint64_t> numbers;
  for (std::uint64_t i = 0; i < source.count(); ++i) numbers.push_back(next[source.label(i)]++);
  return numbers;
}

struct Parts {
  std::vector<std::uint64_t> training, held_out;
};

/// Each label has its share of the pictures that are held out, whatever their order is. With a fraction of 1
/// all are in both parts.
Parts divide(const PictureSource& source, double fraction) {
  const auto before = [fraction](std::uint64_t end) {
    return std::floor(static_cast<double>(end) * fraction);
  };
  const std::vector<std::uint64_t> numbers = number_by_label(source);
  Parts parts;
  for (std::uint64_t i = 0; i < numbers.size(); ++i) {
    const bool held_out = before(numbers[i] + 1) > before(numbers[i]);
    if (held_out) parts.held_out.push_back(i);
    if (!held_out || fraction >= 1) parts.training.push_back(i);
  }
  return parts;
}

/// The lowest and the highest label.
std::pair<compute::Token, compute::Token> label_range(const PictureSource& source) {
  compute::Token low = source.label(0), high = low;
  for (std::uint64_t i = 1; i < source.count(); ++i) {
    low = std::min(low, source.label(i));
    high = std::max(high, source.label(i));
  }
  return {low, high};
}

void check_classes(const std::string& data, const PictureSource& training, int classes,
                   compute::Token first_label) {
  std::vector<bool> found(static_cast<std::size_t>(classes));
  for (std::uint64_t i = 0; i < training.count(); ++i) found[training.label(i)] = true;
  const auto empty = std::find(found.begin(), found.end(), false);
  if (empty == found.end()) return;
  refuse(data, fmt::format("no picture to train on has the label {}, and the labels reach up to {}",
                           empty - found.begin() + first_label, classes - 1 + first_label));
}

void check_held_out(const std::string& data, const PictureSource& held_out, int classes,
                    compute::Token first_label) {
  for (std::uint64_t i = 0; i < held_out.count(); ++i) {
    const std::int64_t label = std::int64_t{held_out.label(i)} - first_label;
    if (label >= 0 && label < classes) continue;
    refuse(data, fmt::format("{} has the label {}, and the labels to train on are {} to {}", held_out.name(i),
                             held_out.label(i), first_label, classes - 1 + first_label));
  }
}

}  // namespace

bool has_held_out_part(const std::string& data) { return find_parts(data).has_value(); }

PictureSet open_picture_set(const PictureSetOptions& options) {
  std::string data = options.data, validation = options.validation_data;
  if (const auto parts = find_parts(data); parts && validation.empty()) std::tie(data, validation) = *parts;
  std::vector<std::string> names;
  const Source all = open_part(data, options.label_column, names);
  const double fraction = validation.empty() ? options.validation_fraction : 0;
  const Source other = validation.empty() ? all : open_part(validation, options.label_column, names);
  Parts parts = divide(*all, fraction);
  if (parts.training.empty()) refuse(data, "there is no picture to train on");
  const auto [low, high] = label_range(*all);
  const compute::Token first_label = names.empty() && low > 0 ? 1 : 0;
  PictureSet set;
  set.classes = static_cast<int>(high - first_label) + 1;
  set.training = std::make_shared<SelectedPictures>(all, std::move(parts.training), first_label);
  check_classes(data, *set.training, set.classes, first_label);
  check_held_out(validation.empty() ? data : validation, *other, set.classes, first_label);
  if (!validation.empty()) {
    parts.held_out.resize(other->count());
    std::iota(parts.held_out.begin(), parts.held_out.end(), 0);
  }
  set.held_out = std::make_shared<SelectedPictures>(other, std::move(parts.held_out), first_label);
  return set;
}

}  // namespace muster::picture_sets
