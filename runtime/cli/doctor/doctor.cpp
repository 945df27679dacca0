// SPDX-License-Identifier: Apache-2.0
#include "doctor/doctor.hpp"

#include <fmt/format.h>

#include <chrono>
#include <iostream>
#include <iterator>
#include <memory>

#include "control_plane/control_plane.hpp"
#include "doctor/checks.hpp"
#include "doctor/gather_from_ranks.hpp"
#include "job/job_internals.hpp"
#include "log.hpp"
#include "roster/roster.hpp"

namespace muster::cli {
namespace {

using namespace doctor;

struct Options {
  std::string device = "auto";
  std::string format = "table";
  int deadline = 60;
};

using Check = std::vector<Row> (*)(DoctorContext&);
constexpr std::initializer_list<Check> checks = {
    check_join,   check_ports,   check_fences, check_clocks,    check_versions,   check_gpus,
    check_fabric, check_network, check_limits, check_variables, check_all_reduce, check_nodes};

void print(const Options& options, const std::vector<Row>& rows) {
  auto const trace = log::captured();
  if (options.format == "json") {
    std::cout << format_json(rows, trace);
    return;
  }
  std::cout << format_table(rows) << "trace of the join on this rank:\n";
  for (const auto& line : trace) std::cout << "  " << line << "\n";
}

std::string describe_this_rank(const Job& job) {
  return bootstrap::describe_rank(job.roster()[static_cast<std::size_t>(job.rank())]);
}

// The rows that rank 0 has from check `number`, on every rank; each rank passes its own.
std::vector<Row> broadcast_rows(Job& job, const std::vector<Row>& mine, int number) {
  auto const plane = detail::JobInternals::plane(job);
  if (plane == nullptr) return mine;
  auto const blob =
      plane->broadcast(fmt::format("doctor rows {}", number), all_ranks(job), 0,
                       job.rank() == 0 ? encode_rows(mine) : control::Blob{}, std::chrono::seconds(60));
  return decode_rows(blob);
}

// An error on this rank alone fails the job on every rank, so that one rank reports it and the others do not
// wait.
std::vector<Row> run_check(Check check, DoctorContext& context) {
  try {
    return check(context);
  } catch (const std::exception& error) {
    auto const plane = detail::JobInternals::plane(context.job);
    if (plane == nullptr || plane->failed()) throw;
    auto const* const known = dynamic_cast<const Error*>(&error);
    plane->fail_job(known != nullptr ? known->code() : ErrorCode::system,
                    fmt::format("{}: {}", describe_this_rank(context.job), error.what()));
  }
}

// `rows` grow with each check and are the same on every rank. They stay when a later check throws, since any
// rank may be the one that prints.
void run_checks(Job& job, const std::vector<bootstrap::Finding>& findings, double join_seconds,
                std::vector<Row>& rows) {
  DoctorContext context{job, findings, join_seconds, 0};
  int number = 0;
  for (auto const check : checks) {
    auto some = broadcast_rows(job, run_check(check, context), ++number);
    rows.insert(rows.end(), std::make_move_iterator(some.begin()), std::make_move_iterator(some.end()));
  }
}

const char* suggest_fix(ErrorCode code) {
  switch (code) {
    case ErrorCode::device:
      return "see nvidia-smi there and NCCL's output with NCCL_DEBUG=WARN; --device host checks the rest "
             "without GPUs";
    case ErrorCode::deadline:
      return "see what the ranks named here do, or give all of them longer with --deadline";
    case ErrorCode::lost_rank:
      return "see that rank's output and the system log of its node";
    default:
      return "";  // the text contains the fix
  }
}

// Exactly one rank prints: rank 0, or the rank that reports why the job failed.
int run(const Options& options) {
  log::start_capture();
  auto const device = options.device == "gpu"    ? Device::cuda
                      : options.device == "auto" ? Device::automatic
                                                 : Device::cpu;
  std::chrono::seconds const deadline(options.deadline);
  std::vector<bootstrap::Finding> findings;
  std::vector<Row> rows;
  bool printed = false;
  auto const since = std::chrono::steady_clock::now();
  try {
    auto job = detail::JobInternals::join_for_diagnosis(
        {.deadline = deadline, .operation_timeout = deadline, .device = device}, findings);
    auto const seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - since).count();
    run_checks(job, findings, seconds, rows);
    if (job.rank() == 0) print(options, rows);
    printed = true;
    job.leave();
    return exit_code(rows);
  } catch (const std::exception& error) {
    if (printed) throw;
    auto const* const known = dynamic_cast<const Error*>(&error);
    if (known != nullptr && known->reported_elsewhere()) return 1;
    rows.push_back({Verdict::fail, "job", error.what(), known != nullptr ? suggest_fix(known->code()) : ""});
    print(options, rows);
    return 1;
  }
}

}  // namespace

void add_doctor(CLI::App& app, int& code) {
  auto options = std::make_shared<Options>();
  auto* doctor = app.add_subcommand("doctor", "Check a job and its cluster (under srun, mpirun or alone)");
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
                   "Seconds within which all ranks have to join and each operation has to end (default: 60)")
      ->type_name("SECONDS")
      ->check(CLI::Range(1, 3600));
  doctor->footer(
      "Rank 0 prints a table of the checks that passed, warned or failed, with a fix for each.\n"
      "Exit code 0 when nothing failed, else 1.\n\nExamples:\n"
      "  srun -N2 --ntasks-per-node=8 --gpus-per-task=1 --mpi=pmix --muster muster doctor\n"
      "  mpirun -n 2 muster doctor --format json");
  doctor->callback([options, &code] { code = run(*options); });
}

}  // namespace muster::cli
