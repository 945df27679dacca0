// SPDX-License-Identifier: Apache-2.0
// Preloaded (LD_PRELOAD) to simulate a host with a wrong clock: CLOCK_REALTIME is SHIFTED_CLOCK_SECONDS
// ahead, from SHIFTED_CLOCK_AFTER_MS milliseconds (0) after the first call on. The lab's nodes share one
// kernel, and Linux has no namespace for that clock.
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <cstdlib>

namespace {

long milliseconds_since_first_call() {
  timespec now{};
  syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &now);
  long const milliseconds = now.tv_sec * 1000 + now.tv_nsec / 1'000'000;
  static long const first = milliseconds;
  return milliseconds - first;
}

long number_from(const char* name) {
  const char* const text = std::getenv(name);
  return text == nullptr ? 0 : std::atol(text);
}

}  // namespace

extern "C" int clock_gettime(clockid_t clock, timespec* now) noexcept {
  long const status = syscall(SYS_clock_gettime, clock, now);
  bool const is_shifted = milliseconds_since_first_call() >= number_from("SHIFTED_CLOCK_AFTER_MS");
  if (status == 0 && clock == CLOCK_REALTIME && is_shifted)
    now->tv_sec += number_from("SHIFTED_CLOCK_SECONDS");
  return static_cast<int>(status);
}
