// SPDX-License-Identifier: Apache-2.0
// A SPANK plugin that wraps another one: forwards every hook and logs its duration. In plugstack.conf:
// required spank_stopwatch.so LOG PLUGIN [ARGUMENT…]. Each hook appends one line to LOG:
//   host pid context hook nanoseconds
// The first hook's time includes the loading of PLUGIN, which Slurm would do otherwise. The time to write the
// line is not included.
#include <fcntl.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>

#include "../spank_in_front.hpp"

namespace {

using Clock = std::chrono::steady_clock;

const char* to_string(spank_context_t context) {
  switch (context) {
    case S_CTX_LOCAL:
      return "local";
    case S_CTX_REMOTE:
      return "remote";
    case S_CTX_ALLOCATOR:
      return "allocator";
    default:
      return "other";
  }
}

void log_time(const char* log, const char* hook, Clock::duration took) {
  char host[65] = "", line[256];
  gethostname(host, sizeof host - 1);
  const long long nanoseconds = std::chrono::duration_cast<std::chrono::nanoseconds>(took).count();
  const int length = std::snprintf(line, sizeof line, "%s %d %s %s %lld\n", host, static_cast<int>(getpid()),
                                   to_string(spank_context()), hook, nanoseconds);
  const int file = open(log, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
  // One write() per line, so that the lines of several processes do not mix.
  if (file < 0 || write(file, line, static_cast<std::size_t>(length)) != length)
    slurm_error("stopwatch: %s cannot be written", log);
  if (file >= 0) close(file);
}

int forward_hook(const char* hook, spank_t spank, int count, char* arguments[]) {
  if (count < wrapper::own_arguments) {
    slurm_error("stopwatch: which log and which plugin?");
    return -1;
  }
  const auto start = Clock::now();
  const int result = wrapper::call(hook, spank, count, arguments);
  log_time(arguments[0], hook, Clock::now() - start);
  return result;
}

}  // namespace

#pragma GCC visibility push(default)
extern "C" {
FORWARD_HOOK(slurm_spank_init)
FORWARD_HOOK(slurm_spank_init_post_opt)
FORWARD_HOOK(slurm_spank_local_user_init)
FORWARD_HOOK(slurm_spank_user_init)
FORWARD_HOOK(slurm_spank_task_init_privileged)
FORWARD_HOOK(slurm_spank_task_init)
FORWARD_HOOK(slurm_spank_task_post_fork)
FORWARD_HOOK(slurm_spank_task_exit)
FORWARD_HOOK(slurm_spank_exit)
}
#pragma GCC visibility pop
