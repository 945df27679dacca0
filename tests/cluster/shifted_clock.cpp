// SPDX-License-Identifier: Apache-2.0
// Preloaded (LD_PRELOAD) to simulate a host with a wrong clock: CLOCK_REALTIME is SHIFTED_CLOCK_SECONDS
// ahead. The lab's nodes share one kernel, and Linux has no namespace for that clock.
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <cstdlib>

extern "C" int clock_gettime(clockid_t clock, timespec* now) noexcept {
  long const status = syscall(SYS_clock_gettime, clock, now);
  const char* const seconds = std::getenv("SHIFTED_CLOCK_SECONDS");
  if (status == 0 && clock == CLOCK_REALTIME && seconds != nullptr) now->tv_sec += std::atol(seconds);
  return static_cast<int>(status);
}
