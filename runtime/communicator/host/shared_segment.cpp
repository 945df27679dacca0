// SPDX-License-Identifier: Apache-2.0
#include "communicator/host/shared_segment.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <utility>

namespace muster::detail {

std::unique_ptr<SharedSegment> SharedSegment::create(std::size_t bytes) {
  int const descriptor = memfd_create("muster", MFD_CLOEXEC);
  if (descriptor < 0) return nullptr;
  struct stat file {};
  if (ftruncate(descriptor, static_cast<off_t>(bytes)) != 0 || fstat(descriptor, &file) != 0) {
    close(descriptor);
    return nullptr;
  }
  return map({descriptor, file.st_dev, file.st_ino}, bytes);
}

// In another container the same process id means another process, so device and inode are compared too.
std::unique_ptr<SharedSegment> SharedSegment::open(pid_t owner, const Handle& handle, std::size_t bytes) {
  auto const path = fmt::format("/proc/{}/fd/{}", owner, handle.descriptor);
  int const descriptor = ::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0) return nullptr;
  struct stat file {};
  bool const same = fstat(descriptor, &file) == 0 && file.st_dev == handle.device &&
                    file.st_ino == handle.inode && file.st_size == static_cast<off_t>(bytes);
  if (!same) {
    close(descriptor);
    return nullptr;
  }
  return map({descriptor, handle.device, handle.inode}, bytes);
}

std::unique_ptr<SharedSegment> SharedSegment::map(Handle handle, std::size_t bytes) {
  void* const data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, handle.descriptor, 0);
  if (data == MAP_FAILED) {
    close(handle.descriptor);
    return nullptr;
  }
  return std::unique_ptr<SharedSegment>(new SharedSegment(handle, static_cast<std::byte*>(data), bytes));
}

SharedSegment::~SharedSegment() {
  close_descriptor();
  munmap(data_, bytes_);
}

void SharedSegment::close_descriptor() noexcept {
  int const descriptor = std::exchange(handle_.descriptor, -1);
  if (descriptor >= 0) close(descriptor);
}

}  // namespace muster::detail
