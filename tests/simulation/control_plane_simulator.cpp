// SPDX-License-Identifier: Apache-2.0
// Jobs of real control planes on a simulated network in simulated time. See --help.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <fstream>
#include <map>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "job.hpp"
#include "transport/fd_limit.hpp"

namespace {

std::map<std::string, simulator::FaultKind> kinds() {
  std::map<std::string, simulator::FaultKind> kinds;
  for (int i = 0; i < simulator::fault_kinds; ++i)
    kinds.emplace(simulator::name_of(static_cast<simulator::FaultKind>(i)),
                  static_cast<simulator::FaultKind>(i));
  return kinds;
}

std::map<std::string, simulator::AfterLoss> after_loss_names() {
  std::map<std::string, simulator::AfterLoss> names;
  for (int i = 0; i < simulator::after_loss_kinds; ++i)
    names.emplace(simulator::name_of(static_cast<simulator::AfterLoss>(i)),
                  static_cast<simulator::AfterLoss>(i));
  return names;
}

// A line: seed, number of faults, their kind, what follows a loss, "grow", "plain"; "-" for what the seed
// chooses.
std::vector<simulator::JobOptions> read_jobs(const std::string& path) {
  std::vector<simulator::JobOptions> jobs;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    if (line.empty() || line.front() == '#') continue;
    std::istringstream fields(line);
    simulator::JobOptions job;
    std::string faults;
    std::string kind;
    std::string after_loss;
    std::string word;
    if (!(fields >> job.seed >> faults >> kind >> after_loss)) throw std::runtime_error("not a job: " + line);
    if (faults != "-") job.fault_count = std::stoi(faults);
    if (kind != "-") job.kind = kinds().at(kind);
    if (after_loss != "-") job.after_loss = after_loss_names().at(after_loss);
    while (fields >> word) {
      if (word != "grow" && word != "plain") throw std::runtime_error("not a job: " + line);
      (word == "grow" ? job.grow : job.plain) = true;
    }
    jobs.push_back(job);
  }
  return jobs;
}

// Prints what it did wrong.
bool run(const simulator::JobOptions& options, bool verbose) {
  auto const result = simulator::run_job(options);
  auto const violations = simulator::find_violations(result);
  if (!violations.empty() || verbose) fmt::print("seed {}: {}", options.seed, simulator::describe(result));
  for (const auto& violation : violations) fmt::print("  wrong: {}\n", violation);
  return violations.empty();
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app(
      "Runs jobs of real control planes on a simulated network in simulated time, with faults, and checks "
      "what "
      "docs/failures.md promises. One seed is one run.");
  std::uint64_t first = 0;
  std::uint64_t runs = 1000;
  int faults = -1;
  std::string kind;
  std::string after_loss;
  std::string jobs_file;
  bool verbose = false;
  simulator::JobOptions options;
  app.add_option("--seed", first, "seed of the first run")->capture_default_str();
  app.add_option("--runs", runs, "number of runs, with the seeds that follow")->capture_default_str();
  app.add_option(
         "--jobs", jobs_file,
         "run the jobs of this file instead: each line has a seed, faults, their kind, what follows a loss")
      ->check(CLI::ExistingFile);
  app.add_option("--ranks", options.ranks, "ranks of each job; 0: 2 to 24, by the seed")
      ->check(CLI::Range(0, 4096))
      ->capture_default_str();
  app.add_option("--faults", faults, "faults in each job; by default 0 to 2, by the seed")
      ->check(CLI::Range(0, 8));
  app.add_option("--fault", kind, "one kind of fault")->check(CLI::IsMember(kinds()));
  app.add_option("--after-loss", after_loss,
                 "shrink, end or launcher: after a loss the other ranks go on, end, or are killed by the "
                 "launcher; by default the seed chooses")
      ->check(CLI::IsMember(after_loss_names()));
  app.add_flag("--grow", options.grow,
               "the job grows, and the faults come meanwhile; it goes on after a loss");
  app.add_flag("--plain", options.plain, "no stall warnings, and no rank calls on_rank_lost()");
  app.add_flag("--verbose", verbose, "describe each run, also a good one");
  CLI11_PARSE(app, argc, argv);
  if (faults >= 0) options.fault_count = faults;
  if (!kind.empty()) options.kind = kinds().at(kind);
  if (!after_loss.empty()) options.after_loss = after_loss_names().at(after_loss);
  muster::control::raise_fd_limit(8192);

  auto jobs = jobs_file.empty() ? std::vector<simulator::JobOptions>(runs, options) : read_jobs(jobs_file);
  if (jobs_file.empty())
    for (auto& job : jobs) job.seed = first++;
  if (jobs.empty()) {
    fmt::print(stderr, "control_plane_simulator: no job to run\n");
    return 2;
  }
  auto const failed =
      std::count_if(jobs.begin(), jobs.end(), [verbose](const auto& job) { return !run(job, verbose); });
  fmt::print("{} runs, {} failed\n", jobs.size(), failed);
  return failed == 0 ? 0 : 1;
}
