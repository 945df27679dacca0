// SPDX-License-Identifier: Apache-2.0
// chaos_ranks SEED FAULT [HEARTBEAT_TIMEOUT]: the ranks make the same random calls of Muster; which ones,
// follows from the seed. At a random one, one rank has FAULT; the others go on, and must end with an error.
// Rank 0 first prints the plan: "plan: rank 2 kill, calls A|B, before C|D, after E|F", where C to F are what
// a line names as the last call of each step. tests/chaos/chaos starts it and checks how the ranks end.
//   none        the job ends well
//   kill        is killed; kill_two: so is the next rank, at the same time; kill_leaders: ranks 0 and 1 are,
//               which lead two hosts
//   link_down   creates the file MUSTER_CHAOS_LINK_DOWN; once the file is removed, no packet arrives at
//   another
//               host
//   abort       calls std::abort()
//   stop        is stopped
//   exit        ends with exit code 0
//   throw       ends with an exception of its own
//   return      returns from main without leave()
//   other_call  makes call A while the others make call B
//   mismatch    differs in another way: mismatch.cpp
#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <numeric>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "mismatch.hpp"
#include "random_calls.hpp"
#include "unit/runtime/scenarios/exit_code.hpp"

using namespace std::chrono_literals;
using namespace muster;
using chaos::CollectiveCall;
using chaos::RandomCalls;
using chaos::run_call;

namespace {

struct Returned {};

void require(bool right, const char* what) {
  if (!right) throw std::logic_error(std::string("wrong numbers: ") + what);
}

// Every rank adds its rank + 1.
void check_sum(Communicator& world, std::size_t count) {
  std::vector<std::int64_t> values(count, world.rank() + 1);
  world.all_reduce(values);
  auto const sum = static_cast<std::int64_t>(world.size()) * (world.size() + 1) / 2;
  for (auto const value : values) require(value == sum, "all_reduce");
}

void check_ring(Communicator& world, std::size_t count) {
  int const size = world.size();
  if (size == 1) return;
  std::vector<int> const out(count, world.rank());
  std::vector<int> in(count);
  world.grouped([&] {
    world.send(out, (world.rank() + 1) % size);
    world.recv(in, (world.rank() + size - 1) % size);
  });
  for (auto const value : in) require(value == (world.rank() + size - 1) % size, "grouped messages");
}

void check_async(Communicator& world, std::size_t count) {
  std::vector<float> values(count, 1.0f);
  auto work = world.all_reduce_async(values);
  work.wait();
  for (auto const value : values) require(value == static_cast<float>(world.size()), "all_reduce_async");
}

void check_reducer(Communicator& world) {
  Reducer reducer(world, std::vector<std::size_t>{1000, 10, 70'000}, {.bucket_bytes = 50'000});
  for (int step = 0; step < 2; ++step) {
    for (std::size_t i = reducer.parameters(); i-- > 0;) {
      for (auto& value : reducer.gradient(i)) value = static_cast<float>(world.rank());
      reducer.ready(i);
    }
    reducer.finish();
    auto const mean = static_cast<float>(world.size() - 1) / 2;
    for (auto const value : reducer.gradient(2)) require(value == mean, "reducer");
  }
}

struct Step {
  std::size_t what;
  std::size_t count;
  CollectiveCall call;
};

constexpr const char* last_calls[] = {"all_reduce", "grouped messages", "all_reduce",
                                      "all_reduce", "barrier 'epoch'",  "all_reduce"};

std::vector<Step> draw_steps(RandomCalls& random, std::size_t number) {
  std::vector<Step> steps(number);
  for (auto& step : steps) {
    step.what = random.below(10);
    step.count = 1 + random.below(std::size_t{1} << (1 + random.below(15)));
    if (step.what >= std::size(last_calls)) step.call = random.next();
  }
  return steps;
}

std::string describe_last_calls(const std::vector<Step>& steps) {
  std::string text;
  for (const auto& [what, count, call] : steps)
    text += (text.empty() ? "" : "|") +
            std::string(what < std::size(last_calls) ? last_calls[what] : to_string(call.kind));
  return text;
}

void run_step(Job& job, Communicator& world, const Step& step) {
  auto const [what, count, call] = step;
  if (what == 0) return check_sum(world, count);
  if (what == 1) return check_ring(world, count);
  if (what == 2) return check_async(world, count);
  if (what == 3) return check_reducer(world);
  if (what == 4) return job.barrier("epoch");
  if (what == 5) {
    auto part = world.split(world.rank() % 2);
    return check_sum(part, count);
  }
  run_call(world, call);
}

void take_link_down() {
  std::filesystem::path const file = std::getenv("MUSTER_CHAOS_LINK_DOWN");
  std::ofstream(file).put('\n');
  while (std::filesystem::exists(file)) std::this_thread::sleep_for(10ms);
}

void have_fault(const std::string& fault) {
  if (fault.starts_with("kill")) kill(getpid(), SIGKILL);
  if (fault == "link_down") take_link_down();
  if (fault == "abort") std::abort();
  if (fault == "stop") kill(getpid(), SIGSTOP);
  if (fault == "exit") _exit(0);
  if (fault == "throw") throw std::runtime_error("the culprit has a reason of its own");
  if (fault == "return") throw Returned{};
}

std::string describe(CollectiveCall call, std::size_t ranks) {
  std::vector<std::size_t> const counts(ranks, call.count);
  call.counts = counts;
  return describe_call(call);
}

int run(std::uint64_t seed, const std::string& fault, std::chrono::seconds heartbeat_timeout) {
  auto job = Job::join({.deadline = 3 * heartbeat_timeout,
                        .operation_timeout = 6 * heartbeat_timeout,
                        .heartbeat_timeout = heartbeat_timeout,
                        .device = Device::cpu});
  auto world = job.world();
  auto const ranks = static_cast<std::size_t>(job.size());
  RandomCalls random(seed, job.size());
  auto const drawn = random.below(ranks);
  auto const culprit = fault == "kill_leaders" ? 0 : drawn;
  auto const right = random.next();
  auto const wrong = random.other_than(right);
  auto const before = draw_steps(random, random.below(12));
  auto const after = draw_steps(random, 8);
  std::optional<chaos::Mismatch> mismatch;
  if (fault == "mismatch") mismatch = chaos::draw_mismatch(seed, job.size(), static_cast<int>(culprit));
  auto const what =
      mismatch ? describe(*mismatch)
               : fmt::format("{}, calls {}|{}", fault, describe(wrong, ranks), describe(right, ranks));
  if (job.rank() == 0)
    std::fprintf(stderr, "plan: rank %zu %s, before %s, after %s\n", culprit, what.c_str(),
                 describe_last_calls(before).c_str(), describe_last_calls(after).c_str());
  for (const auto& step : before) run_step(job, world, step);
  auto const own = static_cast<std::size_t>(job.rank());
  bool const has_second = fault == "kill_two" || fault == "kill_leaders";
  bool const is_culprit = own == culprit || (has_second && own == (culprit + 1) % ranks);
  try {
    if (is_culprit) have_fault(fault);
  } catch (const Returned&) {
    return 0;
  }
  if (mismatch)
    chaos::run(*mismatch, world);
  else
    run_call(world, is_culprit && fault == "other_call" ? wrong : right);
  for (const auto& step : after) run_step(job, world, step);
  job.leave();
  if (fault != "none")
    std::fprintf(stderr, "chaos_ranks: the fault was not noticed on rank %d\n", job.rank());
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3 && argc != 4) {
    std::fprintf(stderr, "usage: chaos_ranks SEED FAULT [HEARTBEAT_TIMEOUT]\n");
    return 2;
  }
  std::chrono::seconds const heartbeat_timeout(argc == 4 ? std::atoi(argv[3]) : 5);
  return exit_code_of("chaos_ranks",
                      [&] { return run(std::strtoull(argv[1], nullptr, 10), argv[2], heartbeat_timeout); });
}
