// SPDX-License-Identifier: Apache-2.0
#include "doctor/doctor.hpp"

#include <chrono>
#include <iostream>
#include <iterator>
#include <memory>

#include "control/plane.hpp"
#include "doctor/checks.hpp"
#include "job/job_inside.hpp"
#include "log.hpp"

namespace muster::cli {
namespace {

using namespace doctor;

struct Options {
  std::string device = "auto";
  std::string format = "table";
  int deadline = 60;
};

constexpr auto checks = {check_join, check_ports,   check_fences,    check_clocks,     check_versions,
                         check_gpus, check_network, check_variables, check_all_reduce, check_nodes};

void print(const Options& options, const std::vector<Row>& rows) {
  auto const trace = log::kept();
  if (options.format == "json") {
    std::cout << json_of(rows, trace);
    return;
  }
  std::cout << table_of(rows) << "trace of the join on this rank:\n";
  for (const auto& line : trace) std::cout << "  " << line << "\n";
}

std::vector<Row> examine(Job& job, const std::vector<bootstrap::Finding>& findings, double join_seconds) {
  Patient patient{job, findings, join_seconds, 0};
  std::vector<Row> rows;
  for (auto const check : checks) {
    auto some = check(patient);
    rows.insert(rows.end(), std::make_move_iterator(some.begin()), std::make_move_iterator(some.end()));
  }
  return rows;
}

// Every process of the job ends as rank 0 does.
int agreed(Job& job, int code) {
  auto* const plane = detail::JobInside::plane(job);
  if (plane == nullptr) return code;
  std::vector<int> everyone;
  for (const auto& hello : job.roster()) everyone.push_back(hello.rank);
  auto const said =
      plane->broadcast("doctor", everyone, 0, {static_cast<std::uint8_t>(code)}, std::chrono::seconds(60));
  return said.empty() ? 1 : said.front();
}

int run(const Options& options) {
  log::keep();
  auto const device = options.device == "gpu"    ? Device::cuda
                      : options.device == "auto" ? Device::automatic
                                                 : Device::cpu;
  std::vector<bootstrap::Finding> findings;
  auto const since = std::chrono::steady_clock::now();
  try {
    auto job = detail::JobInside::examine(
        {.deadline = std::chrono::seconds(options.deadline), .device = device}, findings);
    auto const seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - since).count();
    auto const rows = examine(job, findings, seconds);
    int const code = agreed(job, exit_code_of(rows));
    if (job.rank() == 0) print(options, rows);
    job.leave();
    return code;
  } catch (const Error& error) {
    // The one that is to speak has the table; the others end without a word.
    if (!error.repeated()) print(options, {{Verdict::fail, "job", error.what(), ""}});
    return 1;
  }
}

}  // namespace

void add_doctor(CLI::App& app, int& code) {
  auto options = std::make_shared<Options>();
  auto* doctor = app.add_subcommand("doctor", "Examine a job and its cluster (under srun, mpirun or alone)");
  doctor
      ->add_option("--device", options->device,
                   "host, gpu, or auto: the GPU that Muster placed, else host memory (default)")
      ->type_name("WHERE")
      ->check(CLI::IsMember({"auto", "host", "cpu", "gpu"}));
  doctor->add_option("--format", options->format, "table or json (default: table)")
      ->type_name("FORMAT")
      ->check(CLI::IsMember({"table", "json"}));
  doctor
      ->add_option("--deadline", options->deadline,
                   "Seconds within which all ranks have to join (default: 60)")
      ->type_name("SECONDS")
      ->check(CLI::Range(1, 3600));
  doctor->footer(
      "Rank 0 prints a table of what passed, what is to be warned of and what failed, with a fix for each.\n"
      "Exit code 0 when nothing failed, else 1.\n\nExamples:\n"
      "  srun -N2 --ntasks-per-node=8 --gpus-per-task=1 --mpi=pmix --muster muster doctor\n"
      "  mpirun -n 2 muster doctor --format json");
  doctor->callback([options, &code] { code = run(*options); });
}

}  // namespace muster::cli
