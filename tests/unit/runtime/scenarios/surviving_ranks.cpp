// SPDX-License-Identifier: Apache-2.0
// A job that a test disturbs, for tests/cluster/failures: surviving_ranks RUN CASE[:RANK] [OPTION...].
// RUN is any word that identifies this run's processes. Rank 0 prints "steady" once all ranks are in their
// loop. A rank that disturbs itself prints "now" right before. When the job fails, the reporter prints one
// line.
//   steady     reduces until the test disturbs it
//   exits      RANK ends with exit code 0, without leaving
//   absent     RANK never joins
//   nccl       RANK is killed inside NCCL's initialisation (fakes of CUDA and NCCL)
//   sick_gpu   the GPU of RANK does not answer (the same fakes)
//   differs    RANK broadcasts where the other ranks reduce
//   again      RANK is killed while NCCL is initialised again after a loss (the same fakes)
//   later      RANK is killed after the job has shrunk once
//   late       RANK enters the fifth all-reduce 3 s after the other ranks
// Options: survive (JoinOptions::tolerate_rank_loss), barrier (the loop is of barriers, without a
// communicator),
//   save=FOLDER (on_rank_lost writes a file there), shrink (continues with the survivors after each loss, and
//   prints "going on"), doubles (fakes of CUDA and NCCL, whose GPU memory is host memory), computes (makes no
//   calls of Muster once it is steady), steps=N, join=MS, silence=MS, stall=MS, timeout=MS, fifo=PATH (open
//   as long as the process lives)
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "exit_code.hpp"
#include "muster/muster.hpp"

using namespace std::chrono_literals;
using std::chrono::milliseconds;

namespace {

struct Arguments {
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

int launched_rank() {
  const char* const rank = std::getenv("SLURM_PROCID");
  return rank != nullptr ? std::atoi(rank) : 0;
}

void reduce(muster::Communicator& world) {
  // Never freed: GPU memory is host memory on the fakes, whose NCCL may still write after the operation
  // failed.
  static std::deque<std::vector<double>> buffers;
  auto& values = buffers.emplace_back(1000, world.rank() + 1.0);
  world.all_reduce(std::span<double>(values));
  world.synchronize();
  double const sum = world.size() * (world.size() + 1) / 2.0;
  if (std::any_of(values.begin(), values.end(), [&](double value) { return value != sum; })) {
    std::printf("wrong sum\n");
    std::exit(3);
  }
}

void print_line(const std::string& text) {
  std::printf("%s\n", text.c_str());
  std::fflush(stdout);
}

void exit_without_leaving() {
  print_line("now");
  _exit(0);
}

void loop(muster::Job& job, const Arguments& arguments, int count) {
  bool const is_target = job.rank() == arguments.rank;
  if (arguments.has("barrier")) {
    for (int i = 0; i < count; ++i) {
      if (i == 4 && is_target && arguments.what == "exits") exit_without_leaving();
      job.barrier("step", 60s);
      if (i == 3 && job.rank() == 0) print_line("steady");
      std::this_thread::sleep_for(20ms);
    }
    return;
  }
  auto world = job.world();
  for (int i = 0; i < count; ++i) {
    if (i == 4 && is_target && arguments.what == "exits") exit_without_leaving();
    if (i == 4 && is_target && arguments.what == "late") std::this_thread::sleep_for(3s);
    if (i == 4 && is_target && arguments.what == "differs") {
      std::vector<double> values(1000);
      print_line("now");
      world.broadcast(std::span<double>(values), 0);
    } else {
      reduce(world);
    }
    if (i == 3 && job.rank() == 0) print_line("steady");
    while (i == 3 && arguments.has("computes")) std::this_thread::sleep_for(1s);
    std::this_thread::sleep_for(20ms);
  }
}

// failures.py waits on this FIFO for the end of the last process that has it open.
void hold_open(const std::string& fifo) {
  if (fifo.empty()) return;
  int const descriptor = open(fifo.c_str(), O_WRONLY | O_CLOEXEC);
  if (descriptor < 0 || write(descriptor, "", 1) != 1) {
    std::perror(fifo.c_str());
    _exit(1);
  }
}

// Continues without the lost rank. `dies`: this rank is killed next, while it reduces, or while NCCL is
// initialised.
void continue_with_survivors(muster::Job& job, bool dies, bool dies_in_nccl) {
  job.shrink();
  if (dies_in_nccl) setenv("FAKE_NCCL", "die_in_init", 1);
  auto world = job.world();
  for (int i = 0; i < 10; ++i) {
    reduce(world);
    if (dies && i == 5) kill(getpid(), SIGKILL);
  }
  if (world.rank() == 0)
    print_line("going on with " + std::to_string(world.size()) + " on " + world.backend());
}

int run(const Arguments& arguments) {
  bool const is_target = launched_rank() == arguments.rank;
  if (is_target && arguments.what == "absent") {
    print_line("now");
    std::this_thread::sleep_for(60s);
  }
  hold_open(arguments.value("fifo", ""));
  bool const on_fakes = arguments.what == "nccl" || arguments.what == "sick_gpu" || arguments.has("doubles");
  if (is_target && arguments.what == "sick_gpu") {
    setenv("FAKE_CUDA", "hang", 1);
    print_line("now");
  }
  if (on_fakes)
    setenv("FAKE_CUDA_PCI", ("0000:0" + std::to_string(launched_rank() % 8) + ":00.0").c_str(), 1);
  auto job = muster::Job::join({.deadline = arguments.ms("join", "20000"),
                                .operation_timeout = arguments.ms("timeout", "60000"),
                                .heartbeat_timeout = arguments.ms("silence", "10000"),
                                .device = on_fakes ? muster::Device::cuda : muster::Device::cpu,
                                .tolerate_rank_loss = arguments.has("survive"),
                                .stall_warning = arguments.ms("stall", "30000")});
  if (auto const folder = arguments.value("save", ""); !folder.empty()) {
    job.on_rank_lost([folder, rank = job.rank()](const muster::RankLoss& loss) {
      std::ofstream(folder + "/" + std::to_string(rank)) << loss.ranks.at(0) << "\n";
    });
  }
  if (arguments.what == "nccl") {
    setenv("FAKE_NCCL", "hang_init", 1);
    if (is_target) {
      print_line("now");
      ualarm(300'000, 0);
    }
    if (job.rank() == 0) print_line("steady");
  }
  for (bool shrunk = false, lost = true; lost;) {
    try {
      if (shrunk) {
        continue_with_survivors(job, is_target && arguments.what == "later",
                                is_target && arguments.what == "again");
      } else {
        loop(job, arguments, std::stoi(arguments.value("steps", "3000")));
      }
      lost = false;
    } catch (const muster::Error& error) {
      if (!arguments.has("shrink") || error.code() != muster::ErrorCode::lost_rank) throw;
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
  Arguments arguments;
  std::string const what = argv[2];
  arguments.what = what.substr(0, what.find(':'));
  if (what.find(':') != std::string::npos) arguments.rank = std::stoi(what.substr(what.find(':') + 1));
  arguments.options.assign(argv + 3, argv + argc);
  return exit_code_of("surviving_ranks", [&] { return run(arguments); });
}
