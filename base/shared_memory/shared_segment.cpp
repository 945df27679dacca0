// SPDX-License-Identifier: Apache-2.0
#include "shared_memory/shared_segment.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <limits>
#include <string>
#include <utility>

namespace muster {
namespace {

/// Closes it and keeps errno, for the caller to return.
std::nullptr_t refuse(int descriptor) {
  int const error = errno;
  close(descriptor);
  errno = error;
  return nullptr;
}

/// A file longer than the limit of `ulimit -f` would end the process with SIGXFSZ.
bool exceeds_file_limit(std::size_t bytes) {
  rlimit limit{};
  bool const exceeds = getrlimit(RLIMIT_FSIZE, &limit) == 0 && bytes > limit.rlim_cur;
  bool const representable = bytes <= static_cast<std::size_t>(std::numeric_limits<off_t>::max());
  if (exceeds || !representable) errno = EFBIG;
  return exceeds || !representable;
}

}  // namespace

std::unique_ptr<SharedSegment> SharedSegment::create(std::size_t bytes) {
  if (exceeds_file_limit(bytes)) return nullptr;
  int const descriptor = memfd_create("muster", MFD_CLOEXEC);
  if (descriptor < 0) return nullptr;
  struct stat file {};
  if (ftruncate(descriptor, static_cast<off_t>(bytes)) != 0 || fstat(descriptor, &file) != 0)
    return refuse(descriptor);
  return map({descriptor, file.st_dev, file.st_ino}, bytes);
}

// In another container the same process id means another process, so device and inode are compared too.
std::unique_ptr<SharedSegment> SharedSegment::open(pid_t owner, const Handle& handle, std::size_t bytes) {
  std::string const path = "/proc/" + std::to_string(owner) + "/fd/" + std::to_string(handle.descriptor);
  int const descriptor = ::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0) return nullptr;
  struct stat file {};
  bool const same = fstat(descriptor, &file) == 0 && file.st_dev == handle.device &&
                    file.st_ino == handle.inode && file.st_size == static_cast<off_t>(bytes);
  if (!same) {
    errno = ENOENT;
    return refuse(descriptor);
  }
  return map({descriptor, handle.device, handle.inode}, bytes);
}

std::unique_ptr<SharedSegment> SharedSegment::map(Handle handle, std::size_t bytes) {
  void* const data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, handle.descriptor, 0);
  if (data == MAP_FAILED) return refuse(handle.descriptor);
  return std::unique_ptr<SharedSegment>(new SharedSegment(handle, static_cast<std::byte*>(data), bytes));
}

SharedSegment::~SharedSegment() {
  close_descriptor();
  munmap(data_, bytes_);
}

bool SharedSegment::reserve(std::size_t offset, std::size_t bytes) {
  auto const page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  auto const next_page = [page](std::size_t at) { return (at + page - 1) / page * page; };
  std::size_t const begin = next_page(offset), end = std::min(next_page(offset + bytes), next_page(bytes_));
  if (begin >= end) return true;
  // Fails harmlessly on a system without huge pages for shared memory.
  madvise(data_ + begin, end - begin, MADV_HUGEPAGE);
  if (madvise(data_ + begin, end - begin, MADV_POPULATE_WRITE) == 0) return true;
  if (errno != EINVAL) return false;
  // Before Linux 5.14. Here errno is the result.
  errno = posix_fallocate(handle_.descriptor, static_cast<off_t>(begin), static_cast<off_t>(end - begin));
  return errno == 0;
}

void SharedSegment::close_descriptor() noexcept {
  int const descriptor = std::exchange(handle_.descriptor, -1);
  if (descriptor >= 0) close(descriptor);
}

}  // namespace muster
