// SPDX-License-Identifier: Apache-2.0
#include "transport/process_handle.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <optional>
#include <sstream>
#include <utility>
#include <vector>

#include "proc_file.hpp"

namespace muster::control {
namespace {

// From Linux 6.15's <linux/pidfd.h>; the headers of the build are older.
struct PidfdInfo {
  std::uint64_t mask = 0;
  std::uint64_t cgroup_id = 0;
  std::uint32_t pid = 0, tgid = 0, ppid = 0, ruid = 0, rgid = 0, euid = 0, egid = 0, suid = 0, sgid = 0,
                fsuid = 0, fsgid = 0;
  std::int32_t exit_code = 0;
};
static_assert(sizeof(PidfdInfo) == 64);
constexpr std::uint64_t exit_info_flag = 1u << 3;
constexpr unsigned long pidfd_get_info = _IOWR(0xFF, 11, PidfdInfo);

// The fields of /proc/PID/stat from the state (the third) on; the name before it may hold anything.
std::string stat_after_name(long pid) {
  auto const text = read_proc_file(fmt::format("/proc/{}/stat", pid));
  auto const name_end = text.rfind(") ");
  return name_end == std::string::npos ? "" : text.substr(name_end + 2);
}

// The status, in waitpid(2)'s format, of a process that its parent has not reaped yet, or that is still
// exiting (a GPU driver may take long to release memory). See proc(5): fields[0] is the state, [6] the flags,
// [49] the exit code.
std::optional<int> read_ending_status(long pid) {
  std::istringstream text(stat_after_name(pid));
  std::vector<std::string> const fields{std::istream_iterator<std::string>(text), {}};
  if (fields.size() < 50) return std::nullopt;
  constexpr unsigned long exiting = 4;  // PF_EXITING of the kernel's sched.h
  bool const ending = fields[0] == "Z" || fields[0] == "X" || (std::stoul(fields[6]) & exiting) != 0;
  return ending ? std::optional(std::stoi(fields[49])) : std::nullopt;
}

std::optional<int> query_reaped_status(int descriptor) {
  PidfdInfo info;
  info.mask = exit_info_flag;
  if (::ioctl(descriptor, pidfd_get_info, &info) != 0 || (info.mask & exit_info_flag) == 0)
    return std::nullopt;
  return info.exit_code;
}

std::string describe_status(int status) {
  if (WIFSIGNALED(status))
    return fmt::format("was killed by signal {} ({})", WTERMSIG(status), strsignal(WTERMSIG(status)));
  return fmt::format("ended with exit code {}", WEXITSTATUS(status));
}

}  // namespace

ProcessHandle::ProcessHandle(long pid)
    : pid_(pid), descriptor_(static_cast<int>(::syscall(SYS_pidfd_open, static_cast<pid_t>(pid), 0))) {}

ProcessHandle ProcessHandle::from_peer(Socket& socket) {
  ucred peer{};
  socklen_t length = sizeof peer;
  if (::getsockopt(socket.native_handle(), SOL_SOCKET, SO_PEERCRED, &peer, &length) != 0 || peer.pid <= 0)
    return {};
  return ProcessHandle(peer.pid);
}

ProcessHandle::~ProcessHandle() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

ProcessHandle::ProcessHandle(ProcessHandle&& other) noexcept
    : pid_(other.pid_), descriptor_(std::exchange(other.descriptor_, -1)) {}

ProcessHandle& ProcessHandle::operator=(ProcessHandle&& other) noexcept {
  std::swap(pid_, other.pid_);
  std::swap(descriptor_, other.descriptor_);
  return *this;
}

bool ProcessHandle::has_ended() const {
  pollfd ended{descriptor_, POLLIN, 0};
  return ::poll(&ended, 1, 0) > 0;
}

std::string ProcessHandle::describe_exit(std::chrono::milliseconds wait) const {
  pollfd ended{descriptor_, POLLIN, 0};
  bool const has_exited = ::poll(&ended, 1, static_cast<int>(wait.count())) > 0;
  if (auto const status = read_ending_status(pid_)) return describe_status(*status);
  if (!has_exited) return "";
  if (auto const status = query_reaped_status(descriptor_)) return describe_status(*status);
  return "ended";
}

char ProcessHandle::state() const {
  if (has_ended()) return 0;
  auto const fields = stat_after_name(pid_);
  return fields.empty() ? '\0' : fields.front();
}

void ProcessHandle::kill() const { ::syscall(SYS_pidfd_send_signal, descriptor_, SIGKILL, nullptr, 0); }

}  // namespace muster::control
