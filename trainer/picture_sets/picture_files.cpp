// SPDX-License-Identifier: Apache-2.0
#include "picture_sets/picture_files.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>

#include "file/descriptor.hpp"
#include "file/pread_all.hpp"
#include "files/hash.hpp"
#include "muster/error.hpp"
#include "text/printable.hpp"

namespace muster::picture_sets {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t max_bytes = std::uint64_t{1} << 30;

[[noreturn]] void refuse(const fs::path& path, const PictureFile& file, const fs::path& list,
                         const std::string& why) {
  const std::string from = file.line > 0 ? fmt::format("{}:{}: ", list.string(), file.line) : "";
  throw Error(ErrorCode::usage,
              printable(fmt::format("{}cannot use the picture {}: {}", from, path.string(), why)));
}

}  // namespace

PictureFiles::PictureFiles(fs::path folder, std::vector<PictureFile> files, const fs::path& list)
    : folder_(std::move(folder)), files_(std::move(files)) {
  for (PictureFile& file : files_) {
    const fs::path where = path(file);
    struct stat status {};
    if (::stat(where.c_str(), &status) != 0) refuse(where, file, list, std::strerror(errno));
    if (!S_ISREG(status.st_mode)) refuse(where, file, list, "not a regular file");
    file.bytes = static_cast<std::uint64_t>(status.st_size);
    if (file.bytes > max_bytes) refuse(where, file, list, "it has more than 1 GiB");
  }
}

std::span<const std::uint8_t> PictureFiles::read(std::uint64_t picture,
                                                 std::vector<std::uint8_t>& buffer) const {
  const PictureFile& file = files_[picture];
  const fs::path where = path(file);
  const Descriptor open(::open(where.c_str(), O_RDONLY | O_CLOEXEC));
  buffer.resize(file.bytes);
  if (!open.valid() || !pread_all(open.number(), 0, buffer.data(), buffer.size())) {
    const bool is_shorter = errno == 0;
    const char* const why = is_shorter ? "it became shorter while the run went on" : std::strerror(errno);
    throw Error(is_shorter ? ErrorCode::usage : ErrorCode::system,
                printable(fmt::format("cannot read {}: {}", where.string(), why)));
  }
  return buffer;
}

std::uint64_t PictureFiles::fingerprint(std::uint64_t seed) const noexcept {
  for (const PictureFile& file : files_) {
    const std::uint64_t numbers[] = {static_cast<std::uint64_t>(file.label), file.bytes};
    seed = hash_bytes(numbers, sizeof numbers, hash_bytes(file.path.data(), file.path.size(), seed));
  }
  return seed;
}

}  // namespace muster::picture_sets
