// SPDX-License-Identifier: Apache-2.0
#include "exec.hpp"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <memory>
#include <stdexcept>
#include <string_view>

#include "exec/process_plan.hpp"
#include "launcher/local_hello.hpp"
#include "launcher/local_rank.hpp"
#include "placement/report/report.hpp"
#include "slurm/binding.hpp"
#include "text/printable.hpp"

namespace muster::cli {

namespace {

constexpr int exit_unplaced = 78;         // as the plugin's strict
constexpr int exit_not_executable = 126;  // as shells have it
constexpr int exit_not_found = 127;

struct ExecOptions {
  std::optional<int> local_rank, local_size;
  std::string words;
  std::string cpus;
  int cpus_per_task = 0;  // 0: not given
  std::string root = "/";
  bool report = false;
  bool dry_run = false;
  std::optional<std::vector<std::string>> command;
};

/// In one piece, since several processes print.
void print_line(const std::string& text) { std::cerr << "muster: exec: " + printable(text) + "\n"; }

std::optional<std::string> variable(const std::string& name) {
  const char* value = std::getenv(name.c_str());
  return value != nullptr ? std::optional<std::string>(value) : std::nullopt;
}

[[noreturn]] void refuse(const std::string& problem) { throw CLI::ValidationError("exec", problem); }

spank::StepOptions parse_options(const ExecOptions& options) {
  spank::OptionWords words;
  try {
    words = spank::parse_words(options.words);
  } catch (const std::invalid_argument& error) {
    refuse(error.what());
  }
  if (words.explain || words.json)
    refuse(
        "the words explain and json of --muster are srun's: `muster plan --explain`, `muster plan --format "
        "json`");
  auto step = spank::resolve(words, {});
  step.report = step.report || options.report;
  return step;
}

CpuSet parse_cpus(const std::string& list) {
  const auto cpus = CpuSet::parse_list(list);
  if (!cpus || cpus->empty())
    refuse("\"" + list.substr(0, 80) + "\" in --cpus is not a list of CPUs such as 0-3,8");
  return *cpus;
}

void check_options(const ExecOptions& options, const std::vector<std::string>& other_words) {
  if (!other_words.empty())
    refuse("put -- before the command: muster exec [OPTIONS] -- " + other_words.front() + " ...");
  if (!options.dry_run && (!options.command || options.command->empty()))
    refuse("there is no command: muster exec [OPTIONS] -- COMMAND [ARG...]");
  if (!options.dry_run && options.root != "/") refuse("--root is another machine's: add --dry-run");
}

spank::ProcessRequest make_request(const ExecOptions& options, const bootstrap::LocalRank& at) {
  spank::ProcessRequest request;
  request.local_rank = at.local_rank;
  request.local_size = at.local_size;
  request.rank = at.rank;
  request.world_size = at.world_size;
  request.cpus_per_task = options.cpus_per_task;
  request.root = options.root;
  if (options.root == "/") {
    request.cpus = spank::read_affinity();
    request.memory = spank::read_memory_domains();
  }
  if (!options.cpus.empty()) request.cpus = parse_cpus(options.cpus);
  return request;
}

/// "local rank 1 of 2: GPU 0000:41:00.0, CPUs 8-15, memory 1, NIC mlx5_1:1, GPU-CPU NODE, GPU-NIC PXB"
std::string report_line(const spank::ProcessPlan& plan) {
  const auto report = placement::node_report(plan.step.node, {{plan.task}, {}, {}});
  const auto& row = report.rows.front();
  std::string memory, line = "local rank " + std::to_string(plan.task.local_rank) + " of " +
                             std::to_string(plan.step.facts.local_tasks) + ":";
  for (const int domain : row.memory) memory += (memory.empty() ? "" : ",") + std::to_string(domain);
  const auto join = [](const std::vector<std::string>& list) {
    std::string text;
    for (const auto& item : list) text += (text.empty() ? "" : ",") + item;
    return text;
  };
  const std::pair<const char*, std::string> columns[] = {
      {" GPU ", join(row.gpus)},
      {", CPUs ", plan.step.options.parts.cpu ? row.cpus : "unchanged"},
      {", memory ", memory},
      {", NIC ", join(row.nics)}};
  for (const auto& [title, value] : columns) line += title + (value.empty() ? std::string("none") : value);
  if (!row.gpus.empty()) line += ", GPU-CPU " + row.gpu_cpu + ", GPU-NIC " + row.gpu_nic;
  return line;
}

/// A launcher's binding leaves each process too little, and each another part of the node.
std::string binding_warning(const spank::ProcessPlan& plan) {
  const auto own = spank::read_affinity(), parent = spank::read_affinity(getppid());
  const int processes = plan.step.facts.local_tasks;
  if (processes < 2 || own == parent || !own.is_subset_of(parent)) return "";
  return "this process may run on CPUs " + own.to_short_list() + " only, its parent on " +
         parent.to_short_list() +
         ": if the launcher bound it, let it bind nothing (mpirun --bind-to none, srun "
         "--cpu-bind=none), so that " +
         std::to_string(processes) + " processes share all CPUs";
}

void print_warnings(const ExecOptions& options, const spank::ProcessPlan& plan) {
  if (plan.task.local_rank != 0) return;
  const bool own_cpus = options.root == "/" && options.cpus.empty();
  const auto binding = own_cpus ? binding_warning(plan) : "";
  if (!binding.empty()) print_line(binding);
  // The binding is also why the CPUs are too few.
  if (binding.empty())
    for (const auto& warning : plan.step.placement.warnings) print_line(warning);
  for (const auto& warning : plan.warnings) print_line(warning);
}

void print_plan(const spank::ProcessPlan& plan) {
  std::cout << report_line(plan) << "\n";
  for (const auto& one : plan.change.set) std::cout << one.name << "=" << printable(one.value) << "\n";
  for (const auto& name : plan.stale) std::cout << "unset " << name << "\n";
}

/// A task that the plugin has placed already has only its own CPUs.
bool is_placed_by_plugin(const bootstrap::LocalRank& at) {
  return at.launcher == "srun" && variable("MUSTER_SET") &&
         variable("MUSTER_CPUS") == spank::read_affinity().to_list();
}

/// Returns the exit code, 0: the process is placed, or may run without.
int place_process(const ExecOptions& options, const spank::StepOptions& step,
                  const bootstrap::LocalRank& at) {
  const bool strict = options.dry_run || step.mode == spank::Mode::strict;
  try {
    const auto plan = spank::plan_process(make_request(options, at), step, variable);
    print_warnings(options, plan);
    if (options.dry_run) {
      print_plan(plan);
      return 0;
    }
    if (step.report) print_line(report_line(plan));
    const auto problems = spank::apply_plan(plan);
    for (const auto& problem : problems)
      print_line("local rank " + std::to_string(at.local_rank) + ": " + problem);
    return strict && !problems.empty() ? exit_unplaced : 0;
  } catch (const CLI::Error&) {
    throw;
  } catch (const std::exception& error) {
    if (strict || at.local_rank == 0)
      print_line(error.what() + std::string(strict ? "" : "; the command runs without a placement"));
    return strict ? exit_unplaced : 0;
  }
}

int start(const std::vector<std::string>& command) {
  std::vector<char*> words;
  for (const auto& word : command) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  execvp(words.front(), words.data());
  const int error = errno;
  print_line(command.front() + ": " + (error == ENOENT ? "command not found" : std::strerror(error)));
  return error == ENOENT ? exit_not_found : exit_not_executable;
}

int run(const ExecOptions& options, const std::vector<std::string>& other_words) {
  check_options(options, other_words);
  const auto step = parse_options(options);
  if (step.mode != spank::Mode::off) {
    const auto at = bootstrap::find_local_rank(bootstrap::get_env, {options.local_rank, options.local_size});
    if (!options.dry_run && is_placed_by_plugin(at)) {
      if (at.rank == 0) print_line("Muster's plugin has placed this task already; its placement stays");
    } else if (const int code = place_process(options, step, at); code != 0) {
      return code;
    }
  }
  return options.dry_run ? 0 : start(*options.command);
}

void add_process_options(CLI::App& exec, ExecOptions& options) {
  exec.add_option("--local-rank", options.local_rank,
                  "This process's number among those on this host, from 0 (default: the launcher's)")
      ->type_name("R")
      ->check(CLI::Range(0, 65535));
  exec.add_option("--local-size", options.local_size,
                  "The number of processes on this host (default: the launcher's, else 1)")
      ->type_name("N")
      ->check(CLI::Range(1, 65536));
  exec.add_option(
          "--cpus", options.cpus,
          "CPUs for all processes of this host, like 0-15 (default: those that this process may run on)")
      ->type_name("LIST");
  exec.add_option("--cpus-per-task", options.cpus_per_task,
                  "CPUs for each process (default: as many cores as each can have near its GPU)")
      ->type_name("C")
      ->check(CLI::Range(1, 65536));
}

}  // namespace

std::optional<std::vector<std::string>> take_command(int& argc, char** argv) {
  if (argc < 2 || std::string_view(argv[1]) != "exec") return std::nullopt;
  char** const end = argv + argc;
  char** const mark = std::find(argv + 2, end, std::string_view("--"));
  if (mark == end) return std::nullopt;
  argc = static_cast<int>(mark - argv);
  return std::vector<std::string>(mark + 1, end);
}

void add_exec(CLI::App& app, int& code, std::optional<std::vector<std::string>> command) {
  auto options = std::make_shared<ExecOptions>();
  options->command = std::move(command);
  auto* exec = app.add_subcommand(
      "exec",
      "Bind this process as the Slurm plugin would, and become a command: under mpirun, torchrun, in a pod");
  add_process_options(*exec, *options);
  exec->add_option("--muster", options->words,
                   "The words of srun's --muster, such as visible=own,memory=bind")
      ->type_name("WORDS");
  exec->add_flag("--report", options->report, "Print this process's placement as one line")
      ->disable_flag_override();
  exec->add_flag("--dry-run", options->dry_run, "Print placement and variables, and start nothing")
      ->disable_flag_override();
  exec->add_option("--root", options->root,
                   "With --dry-run: read /sys and /proc below this folder (default: /)")
      ->type_name("FOLDER")
      ->check(CLI::ExistingDirectory);
  exec->allow_extras();
  exec->footer(
      "The command follows --: muster exec [OPTIONS] -- COMMAND [ARG...]\n\nExamples:\n"
      "  mpirun --bind-to none -n 8 muster exec -- ./train\n"
      "  torchrun --nproc-per-node 8 --no-python muster exec -- python3 train.py\n"
      "  muster exec --dry-run");
  exec->callback([&code, exec, options] { code = run(*options, exec->remaining()); });
}

}  // namespace muster::cli
