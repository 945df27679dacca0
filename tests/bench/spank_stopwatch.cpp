// SPDX-License-Identifier: Apache-2.0
// A SPANK plugin that stands in front of another one: hands every hook on and writes down how long it took.
// In plugstack.conf: required spank_stopwatch.so LOG PLUGIN [ARGUMENT…]. Each hook appends one line to LOG:
//   host pid context hook nanoseconds
// The first hook's time includes the loading of PLUGIN, which Slurm would have done. Writing the line is not
// counted.
#include <fcntl.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>

#include "../spank_in_front.hpp"

namespace {

using Clock = std::chrono::steady_clock;

const char* name_of(spank_context_t context) {
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

void write_down(const char* log, const char* hook, Clock::duration took) {
  char host[65] = "", line[256];
  gethostname(host, sizeof host - 1);
  const long long nanoseconds = std::chrono::duration_cast<std::chrono::nanoseconds>(took).count();
  const int length = std::snprintf(line, sizeof line, "%s %d %s %s %lld\n", host, static_cast<int>(getpid()),
                                   name_of(spank_context()), hook, nanoseconds);
  const int file = open(log, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
  // One write, so that the lines of many processes do not mix.
  if (file < 0 || write(file, line, static_cast<std::size_t>(length)) != length)
    slurm_error("stopwatch: %s cannot be written", log);
  if (file >= 0) close(file);
}

int hand_on(const char* hook, spank_t spank, int count, char* arguments[]) {
  if (count < in_front::own_arguments) {
    slurm_error("stopwatch: which log and which plugin?");
    return -1;
  }
  const auto start = Clock::now();
  const int result = in_front::call(hook, spank, count, arguments);
  write_down(arguments[0], hook, Clock::now() - start);
  return result;
}

}  // namespace

#pragma GCC visibility push(default)
extern "C" {
HAND_ON(slurm_spank_init)
HAND_ON(slurm_spank_init_post_opt)
HAND_ON(slurm_spank_local_user_init)
HAND_ON(slurm_spank_user_init)
HAND_ON(slurm_spank_task_init_privileged)
HAND_ON(slurm_spank_task_init)
HAND_ON(slurm_spank_task_post_fork)
HAND_ON(slurm_spank_task_exit)
HAND_ON(slurm_spank_exit)
}
#pragma GCC visibility pop
