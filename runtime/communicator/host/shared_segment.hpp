// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <memory>

namespace muster::detail {

/// What two processes write lies so far apart, in bytes, so that they do not slow each other down.
inline constexpr std::size_t cache_line = 64;

/// Memory of several processes of one host and user. It has no name, so that nothing is left behind when they
/// are killed.
class SharedSegment {
 public:
  /// What another process needs to open it, besides the owner's process id.
  struct Handle {
    int descriptor = -1;
    unsigned long long device = 0;
    unsigned long long inode = 0;
  };

  /// `bytes` of zeroes, or null where the kernel refuses.
  static std::unique_ptr<SharedSegment> create(std::size_t bytes);
  /// The one that process `owner` created; null where that cannot be opened from here (other containers,
  /// users).
  static std::unique_ptr<SharedSegment> open(pid_t owner, const Handle& handle, std::size_t bytes);
  ~SharedSegment();
  SharedSegment(const SharedSegment&) = delete;
  SharedSegment& operator=(const SharedSegment&) = delete;

  const Handle& handle() const noexcept { return handle_; }
  /// Nobody else will open it.
  void close_descriptor() noexcept;
  std::byte* data() const noexcept { return data_; }

 private:
  SharedSegment(Handle handle, std::byte* data, std::size_t bytes)
      : handle_(handle), data_(data), bytes_(bytes) {}
  static std::unique_ptr<SharedSegment> map(Handle handle, std::size_t bytes);

  Handle handle_;
  std::byte* data_;
  std::size_t bytes_;
};

}  // namespace muster::detail
