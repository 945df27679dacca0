// SPDX-License-Identifier: Apache-2.0
#include "files/folder_lock.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>

#include "file/regular_file.hpp"
#include "file/user_file.hpp"
#include "file/write_all.hpp"
#include "muster/error.hpp"

namespace muster {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds poll_interval{50};
constexpr std::size_t longest_line = 512;

std::string get_env(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

std::string host_name() {
  char host[256] = "";
  ::gethostname(host, sizeof host - 1);
  return host;
}

std::string describe_this_process() {
  std::string text = fmt::format("process {} on {}", ::getpid(), host_name());
  if (const auto job = get_env("SLURM_JOB_ID"); !job.empty())
    text += fmt::format(", start {} of job {}", std::atoi(get_env("SLURM_RESTART_COUNT").c_str()), job);
  return text;
}

std::string first_line(const std::string& text) {
  const std::string line = text.substr(0, text.find('\n'));
  return line.empty() ? "another process" : line;
}

// Whether the process of describe_this_process() has certainly ended.
bool has_ended(const std::string& holder) {
  long pid = 0;
  int start = 0;
  char host[256] = "", job[256] = "";
  const int found =
      std::sscanf(holder.c_str(), "process %ld on %255[^,], start %d of job %255s", &pid, host, &start, job);
  if (found >= 2 && pid > 0 && host_name() == host)
    return ::kill(static_cast<pid_t>(pid), 0) != 0 && errno == ESRCH;
  // Slurm starts a job again after it has ended the earlier start on all nodes.
  return found == 4 && get_env("SLURM_JOB_ID") == job &&
         start < std::atoi(get_env("SLURM_RESTART_COUNT").c_str());
}

// Two runs may do this at once. The one that renames reads what it has renamed, and gives back a newer file.
void remove_leftover(const std::string& path, const std::string& holder) {
  const std::string mine = fmt::format("{}.{}.{}", path, host_name(), ::getpid());
  if (std::rename(path.c_str(), mine.c_str()) != 0) return;
  const auto renamed = read_regular_file(mine, longest_line);
  if (!renamed || first_line(renamed->text) != holder) (void)!::link(mine.c_str(), path.c_str());
  ::unlink(mine.c_str());
}

[[noreturn]] void refuse(const std::string& holder, const std::filesystem::path& folder,
                         const std::string& hint) {
  throw Error(ErrorCode::usage,
              fmt::format("{} trains into {} already: give this run another --output, or wait for it{}",
                          holder, folder.string(), hint));
}

[[noreturn]] void fail_to_open(const std::string& path, const std::string& why) {
  throw Error(ErrorCode::system, fmt::format("cannot open {}: {}", path, why));
}

}  // namespace

FolderLock::FolderLock(const std::filesystem::path& folder, std::chrono::milliseconds timeout) {
  const std::string path = folder / ".lock";
  std::string why;
  file_ = open_user_file(path, O_RDWR, why);
  if (!file_.valid()) fail_to_open(path, why);
  const auto until = Clock::now() + timeout;
  while (::flock(file_.number(), LOCK_EX | LOCK_NB) != 0) {
    if (errno == EINTR) continue;
    if (errno != EWOULDBLOCK) {  // this file system has no flock
      create_held_file(folder, until);
      return;
    }
    if (Clock::now() >= until) {
      const auto holder = read_regular_file(file_.number(), longest_line);
      refuse(first_line(holder ? holder->text : ""), folder, "");
    }
    std::this_thread::sleep_for(poll_interval);
  }
  // The text is only for error messages: the lock works without it.
  if (::ftruncate(file_.number(), 0) == 0) write_all(file_.number(), describe_this_process() + '\n');
}

void FolderLock::create_held_file(const std::filesystem::path& folder, Clock::time_point until) {
  const std::string path = folder / ".lock.held";
  while (true) {
    const Descriptor file(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666));
    if (file.valid()) {
      held_ = path;
      write_all(file.number(), describe_this_process() + '\n');
      return;
    }
    if (errno != EEXIST) fail_to_open(path, std::strerror(errno));
    const auto found = read_regular_file(path, longest_line);
    const std::string holder = first_line(found ? found->text : "");
    if (has_ended(holder))
      remove_leftover(path, holder);
    else if (Clock::now() >= until)
      refuse(holder, folder, fmt::format("; if it has ended, remove {}", path));
    else
      std::this_thread::sleep_for(poll_interval);
  }
}

FolderLock::~FolderLock() {
  if (!held_.empty()) ::unlink(held_.c_str());
}

}  // namespace muster
