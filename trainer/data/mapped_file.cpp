// SPDX-License-Identifier: Apache-2.0
#include "data/mapped_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "file/descriptor.hpp"
#include "files/hash.hpp"
#include "muster/error.hpp"

namespace muster::data {
namespace {

constexpr std::size_t copy_limit = 1 << 16;
constexpr std::size_t hashed_blocks = 64, hashed_block = 1 << 16;

[[noreturn]] void refuse_file(const std::filesystem::path& path, ErrorCode code, const std::string& why) {
  throw Error(code, fmt::format("cannot read {}: {}", path.string(), why));
}

}  // namespace

MappedFile::MappedFile(std::filesystem::path path) : path_(std::move(path)) {
  const Descriptor file(::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file.valid()) refuse_file(path_, ErrorCode::usage, std::strerror(errno));
  struct stat status {};
  if (::fstat(file.number(), &status) != 0) refuse_file(path_, ErrorCode::system, std::strerror(errno));
  if (!S_ISREG(status.st_mode)) refuse_file(path_, ErrorCode::usage, "not a regular file");
  const auto size = static_cast<std::size_t>(status.st_size);
  if (size < copy_limit) {
    read_whole(file.number(), size);
    return;
  }
  mapping_.emplace(file.number(), size, path_);
  bytes_ = mapping_->bytes();
}

void MappedFile::read_whole(int descriptor, std::size_t size) {
  copied_.resize(size);
  std::size_t done = 0;
  while (done < size) {
    const ssize_t count = ::read(descriptor, copied_.data() + done, size - done);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) refuse_file(path_, ErrorCode::system, std::strerror(errno));
    if (count == 0) break;
    done += static_cast<std::size_t>(count);
  }
  copied_.resize(done);
  bytes_ = copied_;
}

std::uint64_t MappedFile::fingerprint(std::uint64_t seed, std::uint64_t whole) const noexcept {
  if (bytes_.size() <= std::max<std::uint64_t>(whole, hashed_blocks * hashed_block))
    return hash_bytes(bytes_.data(), bytes_.size(), seed);
  const std::uint64_t size = bytes_.size();
  std::uint64_t hash = hash_bytes(&size, sizeof(size), seed);
  for (std::size_t i = 0; i < hashed_blocks; ++i) {
    const std::size_t at = (bytes_.size() - hashed_block) / (hashed_blocks - 1) * i;
    hash = hash_bytes(bytes_.data() + at, hashed_block, hash);
  }
  return hash;
}

}  // namespace muster::data
