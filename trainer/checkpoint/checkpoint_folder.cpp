// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/checkpoint_folder.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <charconv>

#include "file/atomic_file.hpp"
#include "files/atomic_folder.hpp"
#include "muster/error.hpp"

namespace muster {

namespace fs = std::filesystem;

namespace {

constexpr std::string_view step_prefix = "step-";

std::string folder_name(std::int64_t step) { return fmt::format("{}{:08}", step_prefix, step); }

std::optional<std::int64_t> parse_step(const std::string& name) {
  if (!name.starts_with(step_prefix)) return std::nullopt;
  std::int64_t step = -1;
  const char* const end = name.data() + name.size();
  const auto [at, error] = std::from_chars(name.data() + step_prefix.size(), end, step);
  if (error != std::errc() || at != end || step < 0 || name != folder_name(step)) return std::nullopt;
  return step;
}

[[noreturn]] void fail(const char* doing, const fs::path& path, const std::error_code& error) {
  throw Error(ErrorCode::system, fmt::format("cannot {} {}: {}", doing, path.string(), error.message()));
}

}  // namespace

CheckpointFolder::CheckpointFolder(fs::path folder, std::int64_t keep)
    : folder_(std::move(folder)), keep_(std::max<std::int64_t>(keep, 1)) {}

fs::path CheckpointFolder::checkpoint_path(std::int64_t step) const { return folder_ / folder_name(step); }

void CheckpointFolder::open() {
  std::error_code error;
  fs::create_directories(folder_, error);
  if (error) fail("create", folder_, error);
  std::vector<fs::path> leftovers;
  for (fs::directory_iterator entry(folder_, error), end; !error && entry != end; entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (name.starts_with(step_prefix) && is_leftover(name)) leftovers.push_back(entry->path());
  }
  if (error) fail("read", folder_, error);
  for (const fs::path& path : leftovers) fs::remove_all(path, error);
}

std::optional<fs::path> CheckpointFolder::set_aside() {
  if (steps().empty()) return std::nullopt;
  std::error_code error;
  for (int number = 1;; ++number) {
    fs::path aside = folder_;
    aside += fmt::format(".before-{}", number);
    if (fs::exists(aside, error)) continue;
    if (!error) fs::rename(folder_, aside, error);
    if (error) fail("set aside", folder_, error);
    open();
    if (!sync_parent_folder(folder_)) fail("sync the folder of", folder_, {errno, std::generic_category()});
    return aside;
  }
}

std::vector<std::int64_t> CheckpointFolder::steps() const {
  std::vector<std::int64_t> steps;
  std::error_code error;
  for (fs::directory_iterator entry(folder_, error), end; !error && entry != end; entry.increment(error)) {
    if (const auto step = parse_step(entry->path().filename().string())) steps.push_back(*step);
  }
  if (error && error != std::errc::no_such_file_or_directory) fail("read", folder_, error);
  std::sort(steps.begin(), steps.end(), std::greater<>());
  return steps;
}

std::optional<CheckpointFolder::Found> CheckpointFolder::read_newest(
    const models::TensorTable& table, const TrainingTensors& tensors,
    const std::function<void(const TrainingState&)>& check_state,
    const std::function<void(const std::string&)>& skipped) {
  const auto all = steps();
  for (const std::int64_t step : all) {
    const fs::path path = checkpoint_path(step);
    std::optional<Checkpoint> checkpoint;
    try {
      checkpoint.emplace(path);
    } catch (const CheckpointVersionError&) {
      throw;
    } catch (const Error& error) {
      damaged_.insert(step);
      skipped(error.what());
      continue;
    }
    check_state(checkpoint->state());
    try {
      checkpoint->read(table, tensors);
      return Found{path, checkpoint->state()};
    } catch (const Error& error) {
      damaged_.insert(step);
      skipped(error.what());
    }
  }
  if (all.empty()) return std::nullopt;
  throw Error(ErrorCode::usage,
              fmt::format("all {} checkpoints in {} are damaged: pass --resume=off to start anew", all.size(),
                          folder_.string()));
}

fs::path CheckpointFolder::save(const TrainingState& state, const models::TensorTable& table,
                                const TrainingTensors& tensors) {
  fs::path path = checkpoint_path(state.step);
  write_checkpoint(path, state, table, tensors);
  damaged_.erase(state.step);
  if (state.skipped == 0) remove_oldest(state.step);
  return path;
}

void CheckpointFolder::remove_oldest(std::int64_t newest) {
  std::int64_t good = 0;
  for (const std::int64_t step : steps()) {
    // Checkpoints of later steps are damaged: the run did not resume from them.
    if (step > newest) continue;
    if (good == keep_) {
      remove_folder(checkpoint_path(step));
    } else if (!damaged_.contains(step)) {
      ++good;
    }
  }
}

}  // namespace muster
