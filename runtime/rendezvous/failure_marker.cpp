// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/failure_marker.hpp"

#include <linux/keyctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <iterator>
#include <sstream>
#include <vector>

#include "proc_file.hpp"

namespace muster::bootstrap {
namespace {

constexpr unsigned marker_lifetime_s = 3600;

// When this process last saw a failed rendezvous, in ns since boot.
std::atomic<std::int64_t> last_failure{0};

std::string key_description(const std::string& job) { return "muster:told:" + job; }

std::int64_t now_since_boot() {
  timespec now{};
  ::clock_gettime(CLOCK_BOOTTIME, &now);
  return static_cast<std::int64_t>(now.tv_sec) * 1'000'000'000 + now.tv_nsec;
}

// starttime, field 22 of /proc/PID/stat in whole clock ticks (proc(5)). The name before it may hold any
// character, so fields are counted from its end: the 20th.
std::int64_t process_start_time() {
  auto const text = read_proc_file("/proc/self/stat");
  auto const name_end = text.rfind(") ");
  if (name_end == std::string::npos) return now_since_boot();
  std::istringstream rest(text.substr(name_end + 2));
  std::vector<std::string> const fields{std::istream_iterator<std::string>(rest), {}};
  if (fields.size() < 20) return now_since_boot();
  return (std::stoll(fields[19]) + 1) * (1'000'000'000 / ::sysconf(_SC_CLK_TCK));
}

}  // namespace

void mark_failure_reported(const std::string& job) noexcept {
  try {
    auto const now = now_since_boot();
    last_failure = now;
    auto const key =
        ::syscall(SYS_add_key, "user", key_description(job).c_str(), &now, sizeof now, KEY_SPEC_USER_KEYRING);
    if (key > 0) ::syscall(SYS_keyctl, KEYCTL_SET_TIMEOUT, key, marker_lifetime_s, 0, 0);
  } catch (const std::exception&) {  // then a late rank prints its own line
  }
}

bool failure_was_reported(const std::string& job) noexcept {
  try {
    auto const key =
        ::syscall(SYS_keyctl, KEYCTL_SEARCH, KEY_SPEC_USER_KEYRING, "user", key_description(job).c_str(), 0);
    std::int64_t reported_at = 0;
    if (key < 0 ||
        ::syscall(SYS_keyctl, KEYCTL_READ, key, &reported_at, sizeof reported_at, 0) != sizeof reported_at)
      return false;
    if (reported_at <= process_start_time() || reported_at <= last_failure) return false;
    last_failure = now_since_boot();
    return true;
  } catch (const std::exception&) {
    return false;
  }
}

}  // namespace muster::bootstrap
