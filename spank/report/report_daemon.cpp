// SPDX-License-Identifier: Apache-2.0
#include "report/report_daemon.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <system_error>
#include <vector>

#include "report/report_collector.hpp"

namespace muster::spank {

namespace {

// Limits the time of a write to srun's standard error, whose reader may never read.
constexpr unsigned seconds_to_print = 5;

void close_other_descriptors(const std::vector<int>& kept) {
  std::vector<int> open;
  if (DIR* folder = opendir("/proc/self/fd")) {
    while (const dirent* entry = readdir(folder))
      open.push_back(std::atoi(entry->d_name));  // "." and "..": 0
    closedir(folder);
  }
  const auto is_kept = [&](int descriptor) {
    return std::find(kept.begin(), kept.end(), descriptor) != kept.end();
  };
  for (const int descriptor : open)
    if (descriptor > STDERR_FILENO && !is_kept(descriptor)) close(descriptor);
  const int null_device = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  for (const int descriptor : {STDIN_FILENO, STDOUT_FILENO}) {
    if (is_kept(descriptor)) continue;  // srun was started without this standard stream
    if (null_device < 0)
      close(descriptor);
    else
      dup2(null_device, descriptor);
  }
  if (null_device > STDERR_FILENO) close(null_device);
}

// srun's handlers and blocked signals are not ours.
void reset_signals() {
  struct sigaction action {};
  action.sa_handler = SIG_DFL;
  for (int number = 1; number < NSIG; ++number) sigaction(number, &action, nullptr);
  action.sa_handler = SIG_IGN;
  for (const int number : {SIGINT, SIGQUIT, SIGHUP, SIGPIPE}) sigaction(number, &action, nullptr);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
}

void print(const std::string& text) {
  alarm(seconds_to_print);
  std::size_t written = 0;
  while (written < text.size()) {
    const ssize_t count = write(STDERR_FILENO, text.data() + written, text.size() - written);
    if (count < 0 && errno != EINTR) return;
    if (count > 0) written += static_cast<std::size_t>(count);
  }
}

[[noreturn]] void collect_and_print(ReportCollector& collector, int end, pid_t owner, int nodes,
                                    bool explain) {
  try {
    setsid();
    reset_signals();
    prctl(PR_SET_NAME, "muster-report");
    if (chdir("/") != 0) _exit(1);
    close_other_descriptors({collector.descriptor(), end});
    auto reports = collector.collect(end, owner);
    if (!reports.empty()) print(placement::merge_reports(std::move(reports), nodes, explain));
  } catch (...) {  // no process is left to report it to
    _exit(1);
  }
  _exit(0);
}

}  // namespace

ReportAddress start_report_daemon(int nodes, bool explain) {
  ReportCollector collector(nodes);
  int end[2];  // srun's end closes when srun ends, in whatever way
  if (pipe2(end, O_CLOEXEC) != 0) throw std::system_error(errno, std::generic_category(), "pipe2");
  const pid_t owner = getpid();
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);  // none of srun's handlers may run in the child
  const pid_t child = fork();
  if (child == 0) {
    // A grandchild, so that srun has no child to wait for.
    const pid_t grandchild = fork();
    if (grandchild != 0) _exit(grandchild < 0 ? 1 : 0);
    close(end[1]);
    collect_and_print(collector, end[0], owner, nodes, explain);
  }
  const int error = errno;
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  close(end[0]);
  int status = 0;
  pid_t waited = 0;
  while (child > 0 && (waited = waitpid(child, &status, 0)) < 0 && errno == EINTR) {
  }
  const bool started = child > 0 && (waited < 0 || (WIFEXITED(status) && WEXITSTATUS(status) == 0));
  if (!started) {
    close(end[1]);
    throw std::system_error(child < 0 ? error : EAGAIN, std::generic_category(), "fork");
  }
  return collector.address();
}

}  // namespace muster::spank
