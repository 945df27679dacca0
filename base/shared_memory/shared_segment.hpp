// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <memory>

namespace muster {

/// Distance in bytes between data of different writers, to avoid false sharing.
inline constexpr std::size_t cache_line = 64;

/// Memory shared by several processes of one user on one host. It has no name, so that nothing is left behind
/// when they are killed, and the size of /dev/shm does not limit it.
class SharedSegment {
 public:
  /// Identifies the segment to another process, together with the owner's process id.
  struct Handle {
    int descriptor = -1;
    unsigned long long device = 0;
    unsigned long long inode = 0;
  };

  /// `bytes` zero bytes, or null with errno if the kernel refuses. They are allocated by reserve(), or page
  /// by page at the first access.
  static std::unique_ptr<SharedSegment> create(std::size_t bytes);
  /// Opens the segment that process `owner` created; null with errno if this process cannot open it (another
  /// container or user).
  static std::unique_ptr<SharedSegment> open(pid_t owner, const Handle& handle, std::size_t bytes);
  ~SharedSegment();
  SharedSegment(const SharedSegment&) = delete;
  SharedSegment& operator=(const SharedSegment&) = delete;

  /// Allocates these bytes, of which each page counts if it begins among them, so that parts that lie side by
  /// side are those of different processes. The memory lies where the calling thread's policy puts it, by
  /// default on its NUMA node. Afterwards no access can fail for want of memory. False with errno if there is
  /// not enough.
  [[nodiscard]] bool reserve(std::size_t offset, std::size_t bytes);

  const Handle& handle() const noexcept { return handle_; }
  /// To be called once no other process will open the segment.
  void close_descriptor() noexcept;
  std::byte* data() const noexcept { return data_; }
  std::size_t bytes() const noexcept { return bytes_; }

 private:
  SharedSegment(Handle handle, std::byte* data, std::size_t bytes)
      : handle_(handle), data_(data), bytes_(bytes) {}
  static std::unique_ptr<SharedSegment> map(Handle handle, std::size_t bytes);

  Handle handle_;
  std::byte* data_;
  std::size_t bytes_;
};

}  // namespace muster
