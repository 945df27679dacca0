// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/resource.h>
#include <unistd.h>

#include <cstddef>
#include <cstdio>

namespace test {

/// While an object exists, the process can allocate only `bytes` more than it had. Does nothing under
/// AddressSanitizer, which reserves terabytes of addresses from the start.
class MemoryLimit {
 public:
  explicit MemoryLimit(std::size_t bytes) {
    getrlimit(RLIMIT_AS, &before_);
#ifndef __SANITIZE_ADDRESS__
    rlimit limited = before_;
    limited.rlim_cur = pages() * static_cast<rlim_t>(sysconf(_SC_PAGESIZE)) + bytes;
    setrlimit(RLIMIT_AS, &limited);
#else
    static_cast<void>(bytes);
#endif
  }
  ~MemoryLimit() { setrlimit(RLIMIT_AS, &before_); }
  MemoryLimit(const MemoryLimit&) = delete;
  MemoryLimit& operator=(const MemoryLimit&) = delete;

 private:
  static rlim_t pages() {
    unsigned long count = 0;
    if (FILE* file = std::fopen("/proc/self/statm", "re")) {
      if (std::fscanf(file, "%lu", &count) != 1) count = 0;
      std::fclose(file);
    }
    return count;
  }

  rlimit before_{};
};

}  // namespace test
