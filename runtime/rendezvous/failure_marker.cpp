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

constexpr unsigned kept_seconds = 3600;

// Of this process: when it last heard that a meeting failed, since the host began.
std::atomic<std::int64_t> last_heard{0};

std::string key_of(const std::string& job) { return "muster:told:" + job; }

std::int64_t now_since_boot() {
  timespec now{};
  ::clock_gettime(CLOCK_BOOTTIME, &now);
  return static_cast<std::int64_t>(now.tv_sec) * 1'000'000'000 + now.tv_nsec;
}

// proc(5): the 22nd field of /proc/PID/stat, in whole clock ticks; the 20th after the name, which may hold
// anything.
std::int64_t own_beginning() {
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
    last_heard = now;
    auto const key =
        ::syscall(SYS_add_key, "user", key_of(job).c_str(), &now, sizeof now, KEY_SPEC_USER_KEYRING);
    if (key > 0) ::syscall(SYS_keyctl, KEYCTL_SET_TIMEOUT, key, kept_seconds, 0, 0);
  } catch (const std::exception&) {  // then a rank that comes late speaks for itself
  }
}

bool failure_was_reported(const std::string& job) noexcept {
  try {
    auto const key =
        ::syscall(SYS_keyctl, KEYCTL_SEARCH, KEY_SPEC_USER_KEYRING, "user", key_of(job).c_str(), 0);
    std::int64_t told = 0;
    if (key < 0 || ::syscall(SYS_keyctl, KEYCTL_READ, key, &told, sizeof told, 0) != sizeof told)
      return false;
    if (told <= own_beginning() || told <= last_heard) return false;
    last_heard = now_since_boot();
    return true;
  } catch (const std::exception&) {
    return false;
  }
}

}  // namespace muster::bootstrap
