// SPDX-License-Identifier: Apache-2.0
// Safety against a crash of the machine: data are synced before a file gets its name, and the name after
// that.
#include <fcntl.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <filesystem>
#include <mutex>
#include <string>
#include <vector>

#include "catch.hpp"
#include "files/output_file.hpp"
#include "temporary_folder.hpp"
#include "trainer/checkpoint/checkpoint_arenas.hpp"

namespace {

std::mutex calls_lock;
std::vector<std::string>* calls = nullptr;
std::string calls_within;

/// Records a call on a path in the watched folder.
void remember_call(const std::string& doing, const std::string& path) {
  const std::lock_guard<std::mutex> guard(calls_lock);
  if (calls == nullptr || !path.starts_with(calls_within)) return;
  const std::string name = path.substr(calls_within.size());
  calls->push_back(doing + (name.empty() ? " ." : " " + name.substr(1)));
}

/// The calls of fsync() and rename() on paths in `folder` while `action` runs, in order.
template <typename Action>
std::vector<std::string> record_calls(const TemporaryFolder& folder, Action&& action) {
  std::vector<std::string> all;
  {
    const std::lock_guard<std::mutex> guard(calls_lock);
    calls_within = std::filesystem::canonical(folder.path()).string();
    calls = &all;
  }
  action();
  const std::lock_guard<std::mutex> guard(calls_lock);
  calls = nullptr;
  return all;
}

}  // namespace

// These replace the C library's functions in this program.
extern "C" int fsync(int descriptor) {
  std::error_code ignored;
  const auto path = std::filesystem::read_symlink("/proc/self/fd/" + std::to_string(descriptor), ignored);
  remember_call("sync", path.string());
  return static_cast<int>(::syscall(SYS_fsync, descriptor));
}

extern "C" int renameat(int from_folder, const char* from, int to_folder, const char* to) noexcept {
  const auto result = static_cast<int>(::syscall(SYS_renameat2, from_folder, from, to_folder, to, 0));
  if (result == 0) remember_call("rename", to);
  return result;
}

extern "C" int rename(const char* from, const char* to) noexcept {
  return ::renameat(AT_FDCWD, from, AT_FDCWD, to);
}

TEST_CASE("a file is synced before it is renamed, and its folder is synced afterwards", "[synced]") {
  const TemporaryFolder folder;
  const auto found = record_calls(folder, [&] {
    muster::OutputFile file(folder / "status.json");
    file.write("{}");
    file.commit();
  });
  CHECK(found == std::vector<std::string>{"sync status.json.partial", "rename status.json", "sync ."});
}

TEST_CASE("a checkpoint's files are synced before its folder is renamed, and the parent folder afterwards",
          "[synced]") {
  const TemporaryFolder folder;
  CheckpointArenas arenas;
  const auto write = [&] {
    muster::write_checkpoint(folder / "step-1", state_at(1), arenas.table, arenas.tensors());
  };
  const std::vector<std::string> files{"sync step-1.partial/tensors.safetensors.partial",
                                       "rename step-1.partial/tensors.safetensors",
                                       "sync step-1.partial",
                                       "sync step-1.partial/state.json.partial",
                                       "rename step-1.partial/state.json",
                                       "sync step-1.partial"};
  auto expected = files;
  expected.insert(expected.end(), {"rename step-1", "sync ."});
  CHECK(record_calls(folder, write) == expected);
  // An earlier checkpoint of the same step keeps its data until the new one's name is synced.
  expected = files;
  expected.insert(expected.end(), {"rename step-1.removed", "rename step-1", "sync ."});
  CHECK(record_calls(folder, write) == expected);
}
