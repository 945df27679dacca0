// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <string>

#include "catch.hpp"
#include "data/file_mapping.hpp"
#include "data/mapped_file.hpp"
#include "refusal.hpp"
#include "temporary_folder.hpp"

using namespace muster;

namespace {

constexpr std::size_t size = 300'000;

std::string check_error() {
  return usage_error_text([] { data::check_mapped_files(); });
}

bool consists_of(const data::MappedFile& file, std::uint8_t byte) {
  return file.bytes().size() == size &&
         std::all_of(file.bytes().begin(), file.bytes().end(), [byte](auto found) { return found == byte; });
}

/// Reads a page of a shared mapping, outside of any MappedFile, behind the end of its file.
[[noreturn]] void read_behind_end(const std::filesystem::path& path) {
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  const void* const at = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, file, 0);
  if (at == MAP_FAILED || ::truncate(path.c_str(), 0) != 0) ::_exit(0);
  const char byte = static_cast<const volatile char*>(at)[size - 1];
  ::_exit(byte == 0 ? 0 : 1);
}

}  // namespace

TEST_CASE("when a file becomes shorter, its bytes are zero and the check names it", "[file_mapping]") {
  const TemporaryFolder folder;
  for (const char* name : {"first", "second"}) write_file(folder / name, std::string(size, 'x'));
  const data::MappedFile other(folder / "second");
  {
    const data::MappedFile file(folder / "first");
    CHECK(check_error().empty());
    std::filesystem::resize_file(folder / "first", 10'000);
    CHECK(check_error().empty());  // nothing was read
    CHECK(file.bytes()[size - 1] == 0);
    CHECK(check_error() == "cannot read " + (folder / "first").string() +
                               ": it became shorter while the run went on, 10000 bytes instead of 300000");
    CHECK(consists_of(file, 0));
    CHECK_FALSE(check_error().empty());
  }
  CHECK(check_error().empty());
  CHECK(consists_of(other, 'x'));
}

TEST_CASE("a read behind the end of another mapping ends the process, as ever", "[file_mapping]") {
  const TemporaryFolder folder;
  for (const char* name : {"data", "other"}) write_file(folder / name, std::string(size, 'x'));
  const data::MappedFile file(folder / "data");
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    ::close(STDERR_FILENO);  // AddressSanitizer's report
    read_behind_end(folder / "other");
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(status != 0);
  if (WIFSIGNALED(status)) CHECK(WTERMSIG(status) == SIGBUS);
}
