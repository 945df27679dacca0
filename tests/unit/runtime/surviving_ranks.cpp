// SPDX-License-Identifier: Apache-2.0
// A job to which something happens, for tests/cluster/failures: surviving_ranks RUN CASE[:RANK] [OPTION...].
// RUN is any word; it tells this run's processes from others'. Rank 0 prints "steady" once all are in their
// loop, and who does something to itself "now" right before. Who ends because of the job's failure prints its
// one line, if it is the one to speak.
//   steady     reduces until something comes from outside
//   exits      RANK ends with exit code 0, without leaving
//   absent     RANK never joins
//   nccl       RANK is killed inside NCCL's initialisation (test doubles of CUDA and NCCL)
//   sick_gpu   the GPU of RANK does not answer (the same doubles)
//   differs    RANK broadcasts where the others reduce
//   shrinking  RANK is killed inside NCCL's shrinking (test doubles)
//   later      RANK is killed after the job has shrunk once
//   late       RANK enters the fifth all-reduce 3 s after the others
// Options: survive (JoinOptions::tolerate_rank_loss), barrier (the loop is of barriers, without a
// communicator),
//   save=FOLDER (on_rank_lost writes a file there), shrink (goes on with those that are left, whenever one
//   is lost, and prints "going on"), doubles (on test doubles of CUDA and NCCL, whose GPU memory is host
//   memory), computes (calls nothing of Muster once it is steady), steps=N, join=MS, silence=MS, stall=MS,
//   timeout=MS, fifo=PATH (is open for as long as the process lives)
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "exit_code.hpp"
#include "muster/muster.hpp"

using namespace std::chrono_literals;
using std::chrono::milliseconds;

namespace {

struct Wishes {
  std::string what;
  int rank = -1;
  std::vector<std::string> options;

  bool has(const std::string& option) const {
    return std::find(options.begin(), options.end(), option) != options.end();
  }
  std::string value(const std::string& name, const std::string& otherwise) const {
    for (const auto& option : options)
      if (option.starts_with(name + "=")) return option.substr(name.size() + 1);
    return otherwise;
  }
  milliseconds ms(const std::string& name, const char* otherwise) const {
    return milliseconds(std::stol(value(name, otherwise)));
  }
};

int launched_as() {
  const char* const rank = std::getenv("SLURM_PROCID");
  return rank != nullptr ? std::atoi(rank) : 0;
}

void reduce(muster::Communicator& world) {
  std::vector<double> values(1000, world.rank() + 1.0);
  world.all_reduce(std::span<double>(values));
  world.synchronize();
  double const sum = world.size() * (world.size() + 1) / 2.0;
  if (std::any_of(values.begin(), values.end(), [&](double value) { return value != sum; })) {
    std::printf("wrong sum\n");
    std::exit(3);
  }
}

void say(const std::string& text) {
  std::printf("%s\n", text.c_str());
  std::fflush(stdout);
}

void end_silently() {
  say("now");
  _exit(0);
}

void loop(muster::Job& job, const Wishes& wishes, int count) {
  bool const mine = job.rank() == wishes.rank;
  if (wishes.has("barrier")) {
    for (int i = 0; i < count; ++i) {
      if (i == 4 && mine && wishes.what == "exits") end_silently();
      job.barrier("step", 60s);
      if (i == 3 && job.rank() == 0) say("steady");
      std::this_thread::sleep_for(20ms);
    }
    return;
  }
  auto world = job.world();
  for (int i = 0; i < count; ++i) {
    if (i == 4 && mine && wishes.what == "exits") end_silently();
    if (i == 4 && mine && wishes.what == "late") std::this_thread::sleep_for(3s);
    if (i == 4 && mine && wishes.what == "differs") {
      std::vector<double> values(1000);
      say("now");
      world.broadcast(std::span<double>(values), 0);
    } else {
      reduce(world);
    }
    if (i == 3 && job.rank() == 0) say("steady");
    while (i == 3 && wishes.has("computes")) std::this_thread::sleep_for(1s);
    std::this_thread::sleep_for(20ms);
  }
}

// failures.py sees the end of the last process that has it open.
void hold_open(const std::string& fifo) {
  if (fifo.empty()) return;
  int const descriptor = open(fifo.c_str(), O_WRONLY | O_CLOEXEC);
  if (descriptor < 0 || write(descriptor, "", 1) != 1) {
    std::perror(fifo.c_str());
    _exit(1);
  }
}

// Without who was lost; `ends`: this rank is the next one.
void go_on(muster::Job& job, bool ends) {
  job.shrink();
  auto world = job.world();
  for (int i = 0; i < 10; ++i) {
    reduce(world);
    if (ends && i == 5) kill(getpid(), SIGKILL);
  }
  if (world.rank() == 0) say("going on with " + std::to_string(world.size()) + " on " + world.backend());
}

int run(const Wishes& wishes) {
  bool const mine = launched_as() == wishes.rank;
  if (mine && wishes.what == "absent") {
    say("now");
    std::this_thread::sleep_for(60s);
  }
  hold_open(wishes.value("fifo", ""));
  bool const on_doubles = wishes.what == "nccl" || wishes.what == "sick_gpu" || wishes.has("doubles");
  if (mine && wishes.what == "sick_gpu") {
    setenv("FAKE_CUDA", "hang", 1);
    say("now");
  }
  if (on_doubles)
    setenv("FAKE_CUDA_PCI", ("0000:0" + std::to_string(launched_as() % 8) + ":00.0").c_str(), 1);
  auto job = muster::Job::join({.deadline = wishes.ms("join", "20000"),
                                .operation_timeout = wishes.ms("timeout", "60000"),
                                .heartbeat_timeout = wishes.ms("silence", "10000"),
                                .device = on_doubles ? muster::Device::cuda : muster::Device::cpu,
                                .tolerate_rank_loss = wishes.has("survive"),
                                .stall_warning = wishes.ms("stall", "30000")});
  if (auto const folder = wishes.value("save", ""); !folder.empty()) {
    job.on_rank_lost([folder, rank = job.rank()](const muster::RankLoss& loss) {
      std::ofstream(folder + "/" + std::to_string(rank)) << loss.ranks.at(0) << "\n";
    });
  }
  if (mine && wishes.what == "shrinking") setenv("FAKE_NCCL", "die_in_shrink", 1);
  if (wishes.what == "nccl") {
    setenv("FAKE_NCCL", "hang_init", 1);
    if (mine) {
      say("now");
      ualarm(300'000, 0);
    }
    if (job.rank() == 0) say("steady");
  }
  for (bool shrunk = false, lost = true; lost;) {
    try {
      if (shrunk) {
        go_on(job, mine && wishes.what == "later");
      } else {
        loop(job, wishes, std::stoi(wishes.value("steps", "3000")));
      }
      lost = false;
    } catch (const muster::Error& error) {
      if (!wishes.has("shrink") || error.code() != muster::ErrorCode::lost_rank) throw;
      if (!error.reported_elsewhere()) std::fprintf(stderr, "surviving_ranks: %s\n", error.what());
      shrunk = true;
    }
  }
  job.leave();
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) return 64;
  Wishes wishes;
  std::string const what = argv[2];
  wishes.what = what.substr(0, what.find(':'));
  if (what.find(':') != std::string::npos) wishes.rank = std::stoi(what.substr(what.find(':') + 1));
  wishes.options.assign(argv + 3, argv + argc);
  return exit_code_of("surviving_ranks", [&] { return run(wishes); });
}
