// SPDX-License-Identifier: Apache-2.0
#include "hooks/unprivileged_child.hpp"

#include <fcntl.h>
#include <linux/capability.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <new>
#include <stdexcept>

#include "file/descriptor.hpp"
#include "file/write_all.hpp"

namespace muster::spank {

namespace {

using Clock = std::chrono::steady_clock;

constexpr int exit_failed = 255, exit_memory = 254;
constexpr std::chrono::milliseconds kill_timeout{1000};  // after SIGKILL

[[noreturn]] void fail(const std::string& what) {
  throw std::runtime_error("the step cannot be planned: " + what);
}

[[noreturn]] void fail(const std::string& what, int error) { fail(what + " (" + std::strerror(error) + ")"); }

bool drop_capabilities() {
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  std::array<__user_cap_data_struct, _LINUX_CAPABILITY_U32S_3> none{};
  return syscall(SYS_capset, &header, none.data()) == 0;
}

// Runs no destructor and flushes nothing: buffered output here belongs to the parent.
[[noreturn]] void run_in_child(const std::function<ChildResult()>& work, int result_descriptor) {
  if (!drop_privileges()) _exit(exit_failed);
  prctl(PR_SET_PDEATHSIG, SIGKILL);  // after the change of ids, which resets it
  try {
    const ChildResult result = work();
    if (write_all(result_descriptor, result.bytes)) _exit(result.code);
  } catch (const std::bad_alloc&) {
    _exit(exit_memory);
  } catch (...) {  // the exit code reports it
  }
  _exit(exit_failed);
}

int milliseconds_until(Clock::time_point end) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - Clock::now()).count();
  return static_cast<int>(std::max<std::int64_t>(left, 0));
}

class Child {
 public:
  explicit Child(pid_t process) : process_(process) {}
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  ~Child() {
    if (process_ <= 0) return;
    kill(process_, SIGKILL);
    wait_until(Clock::now() + kill_timeout);
  }

  /// False: it still runs, or its exit status cannot be read.
  bool wait_until(Clock::time_point end) {
    timespec pause{0, 20'000};
    while (true) {
      const pid_t ended = waitpid(process_, &status_, WNOHANG);
      if (ended == process_) break;
      if ((ended < 0 && errno != EINTR) || Clock::now() >= end) return false;
      nanosleep(&pause, nullptr);
      pause.tv_nsec = std::min(pause.tv_nsec * 2, 10'000'000L);
    }
    process_ = -1;
    return true;
  }

  int status() const { return status_; }

 private:
  pid_t process_;
  int status_ = 0;
};

std::string read_result(int from, Clock::time_point end, std::size_t most) {
  std::string bytes;
  std::array<char, 65536> buffer;
  while (true) {
    pollfd waiting{from, POLLIN, 0};
    const int left = milliseconds_until(end);
    const int ready = poll(&waiting, 1, left);
    if (ready < 0 && errno != EINTR) fail("its process cannot be waited for", errno);
    if (ready == 0 && left == 0) fail("its process has not answered in time");
    if (ready <= 0) continue;
    const ssize_t got = read(from, buffer.data(), buffer.size());
    if (got < 0 && errno != EINTR) fail("its process cannot be read", errno);
    if (got == 0) return bytes;
    if (got < 0) continue;
    if (bytes.size() + static_cast<std::size_t>(got) > most)
      fail("the plan has more than " + std::to_string(most) + " bytes");
    bytes.append(buffer.data(), static_cast<std::size_t>(got));
  }
}

}  // namespace

bool drop_privileges() noexcept {
  const uid_t user = geteuid();
  const gid_t group = getegid();
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return false;
  if (setresgid(group, group, group) != 0 || setresuid(user, user, user) != 0) return false;
  if (user == 0) return true;
  return drop_capabilities() && setuid(0) != 0;
}

ChildResult run_unprivileged(const std::function<ChildResult()>& work, const ChildLimits& limits) {
  const auto end = Clock::now() + limits.time;
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) fail("no pipe", errno);
  const Descriptor from(ends[0]);
  Descriptor to(ends[1]);
  const pid_t process = fork();
  if (process == 0) run_in_child(work, to.number());
  if (process < 0) fail("no process", errno);
  Child child(process);
  to.reset();
  ChildResult result;
  result.bytes = read_result(from.number(), end, limits.bytes);
  if (!child.wait_until(end)) fail("its process has not ended");
  if (WIFSIGNALED(child.status()))
    fail("its process was ended by signal " + std::to_string(WTERMSIG(child.status())));
  result.code = WEXITSTATUS(child.status());
  if (result.code == exit_memory) fail("not enough memory");
  if (result.code == exit_failed) fail("its process has failed");
  return result;
}

}  // namespace muster::spank
