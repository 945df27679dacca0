// SPDX-License-Identifier: Apache-2.0
// Joins, runs barriers and leaves, without any communicator: joining_ranks [WHAT [stopped:R]]. Rank 0 prints
// one line: "joined through METHOD: SIZE ranks on HOSTS hosts". Rank R joins before the other ranks and is
// stopped meanwhile, which needs START_GATE. The join may take 100 s, or 2 s with briefly, absent or ended.
// Before such a join each rank waits until COUNT of them are there, if START_GATE is COUNT:FOLDER. WHAT:
//   absent:R,S…  these ranks never join
//   ended:R   rank R ends before it joins
//   deaf:R    rank R cannot listen on TCP
//   killed    the last rank is killed after the join
//   slowly    every rank stays in the job for 1 s
//   briefly   for a join that must fail: it may take 2 s
//   until:FILE  every rank runs barriers until FILE exists, and 100 more
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <stdexcept>
#include <string>
#include <thread>

#include "exit_code.hpp"
#include "muster/muster.hpp"

using namespace std::chrono_literals;

namespace {

constexpr auto patience = 60s;  // on a busy machine

bool is_deaf = false;

// `wanted`: comma-separated ranks.
bool is_rank(const std::string& wanted) {
  for (const char* name : {"OMPI_COMM_WORLD_RANK", "SLURM_PROCID", "RANK"})
    if (const char* const rank = std::getenv(name))
      return ("," + wanted + ",").find("," + std::string(rank) + ",") != std::string::npos;
  return false;
}

void wait_until(const std::string& what, const std::function<bool()>& is_true) {
  auto const end = std::chrono::steady_clock::now() + patience;
  while (!is_true()) {
    if (std::chrono::steady_clock::now() > end) throw std::runtime_error("not in time: " + what);
    std::this_thread::sleep_for(5ms);
  }
}

// The launcher starts the hosts independently of each other, so that one may be late. Returns the folder.
std::string pass_start_gate(const std::string& gate, bool waits) {
  auto const colon = gate.find(':');
  auto const count = std::stoi(gate.substr(0, colon));
  auto const folder = gate.substr(colon + 1);
  char host[256] = "";
  gethostname(host, sizeof host - 1);
  std::ofstream(folder + "/" + host + "." + std::to_string(getpid())) << "\n";
  if (waits)
    wait_until("all ranks at the start gate", [&] {
      std::filesystem::directory_iterator const there(folder);
      return std::distance(begin(there), end(there)) >= count;
    });
  return folder;
}

// Stops this process 200 ms from now.
void stop_while_joining(const std::string& stopped_file) {
  std::thread([stopped_file] {
    std::this_thread::sleep_for(200ms);
    std::ofstream(stopped_file) << "\n";
    kill(getpid(), SIGSTOP);
  }).detach();
}

// Rank 0 polls for `file` and then creates `file`.seen for the other ranks, between two barriers where no
// rank checks for it.
void barrier_until(muster::Job& job, const std::string& file) {
  auto const seen_file = file + ".seen";
  while (access(seen_file.c_str(), F_OK) != 0) {
    job.barrier("looked", patience);
    if (job.rank() == 0 && access(file.c_str(), F_OK) == 0) std::ofstream(seen_file) << "\n";
    std::this_thread::sleep_for(10ms);
    job.barrier("shared", patience);
  }
  for (int i = 0; i < 100; ++i) job.barrier("more", patience);
}

int run(const std::string& what, const std::string& stopped) {
  bool const ends = what.starts_with("ended:") && is_rank(what.substr(6));
  bool const briefly = what == "briefly" || what.starts_with("absent:") || what.starts_with("ended:");
  if (const char* const gate = std::getenv("START_GATE"); gate != nullptr && briefly) {
    auto const stopped_file = pass_start_gate(gate, !ends) + ".stopped";
    if (stopped.starts_with("stopped:")) {
      if (is_rank(stopped.substr(8)))
        stop_while_joining(stopped_file);
      else
        wait_until("the stop", [&] { return access(stopped_file.c_str(), F_OK) == 0; });
    }
  }
  if (ends) return 0;
  if (what.starts_with("absent:") && is_rank(what.substr(7))) {
    std::this_thread::sleep_for(6s);
    return 0;
  }
  is_deaf = what.starts_with("deaf:") && is_rank(what.substr(5));
  bool const until = what.starts_with("until:");
  auto job = muster::Job::join({.deadline = briefly ? 2s : 100s, .device = muster::Device::cpu});
  job.barrier("meet", patience);
  if (job.rank() == 0)
    std::printf("joined through %s: %d ranks on %d hosts\n", job.bootstrap(), job.size(), job.host_count());
  std::fflush(stdout);
  if (what == "killed" && job.rank() == job.size() - 1) kill(getpid(), SIGKILL);
  if (until) barrier_until(job, what.substr(6));
  if (what == "slowly") std::this_thread::sleep_for(1s);
  if (what == "killed") std::this_thread::sleep_for(5s);
  job.barrier("part", patience);
  job.leave();
  return 0;
}

}  // namespace

// Interposes the C library's function.
extern "C" int listen(int descriptor, int backlog) {
  sockaddr_storage own{};
  socklen_t length = sizeof own;
  if (is_deaf && getsockname(descriptor, reinterpret_cast<sockaddr*>(&own), &length) == 0 &&
      own.ss_family != AF_UNIX) {
    errno = EMFILE;
    return -1;
  }
  return static_cast<int>(syscall(SYS_listen, descriptor, backlog));
}

int main(int argc, char** argv) {
  return exit_code_of("joining_ranks", [&] { return run(argc > 1 ? argv[1] : "", argc > 2 ? argv[2] : ""); });
}
