// SPDX-License-Identifier: Apache-2.0
#include "bench/bench.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <iostream>
#include <memory>
#include <optional>

#include "bench/report.hpp"
#include "bench/sizes.hpp"
#include "control_plane/control_plane.hpp"
#include "file/atomic_file.hpp"
#include "job/job_internals.hpp"
#include "muster/job.hpp"
#include "muster/version.hpp"

namespace muster::cli {
namespace {

using namespace bench;

struct Options {
  std::string operation = "all_reduce";
  std::string type = "float32";
  std::string least = "8";
  std::string most = "64M";
  std::size_t factor = 2;
  std::string device = "auto";
  std::string format = "table";
  std::string svg;
  Plan plan;
  std::vector<std::size_t> sizes;
};

// Every rank has the same command line, so all ranks fail here alike, before they join a job.
void parse_arguments(Options& options) {
  options.plan.operation = *parse_operation(options.operation);
  options.plan.type = *parse_type(options.type);
  auto const least = *parse_size(options.least);
  auto const most = *parse_size(options.most);
  if (least == 0 || least > most)
    throw CLI::ValidationError(
        fmt::format("--min {} is not between 1 and --max {}", options.least, options.most));
  options.sizes = sizes_between(least, most, options.factor);
}

// Every rank's sample, by rank. Gathered over the control plane, since the communicator may be on GPU memory.
std::vector<Sample> gather(Job& job, const Sample& mine, std::size_t number) {
  auto const plane = detail::JobInternals::plane(job);
  if (plane == nullptr) return {mine};
  control::Blob blob(sizeof mine);
  std::memcpy(blob.data(), &mine, sizeof mine);
  std::vector<int> everyone;
  for (const auto& hello : job.roster()) everyone.push_back(hello.rank);
  std::vector<Sample> samples;
  for (const auto& one :
       plane->gather(fmt::format("bench {}", number), everyone, blob, std::chrono::minutes(10))) {
    Sample sample;
    if (one.size() != sizeof sample)
      throw Error(ErrorCode::system, "bench: a rank of another version answered");
    std::memcpy(&sample, one.data(), sizeof sample);
    samples.push_back(sample);
  }
  return samples;
}
static_assert(std::is_trivially_copyable_v<Sample>);

void show_progress(std::size_t done, const std::vector<std::size_t>& sizes) {
  if (isatty(STDERR_FILENO) == 0) return;
  if (done < sizes.size()) {
    std::cerr << fmt::format("\r{} of {} sizes, now {}      ", done, sizes.size(), format_size(sizes[done]));
  } else {
    std::cerr << fmt::format("\r{:40}\r", "");
  }
  std::cerr.flush();
}

[[noreturn]] void throw_unwritable(const AtomicFile& file) {
  throw Error(ErrorCode::system,
              fmt::format("bench: {} cannot be written: {}", file.path(), std::strerror(file.error())));
}

int measure_all(Job& job, Options& options) {
  auto& plan = options.plan;
  plan.gpu = job.on_gpu();
  auto world = job.world();
  RunInfo const info{plan,
                     job.size(),
                     job.host_count(),
                     job.bootstrap(),
                     world.backend(),
                     muster::version,
                     job.roster().front().nccl_version};
  bool const is_reporter = job.rank() == 0;
  std::optional<AtomicFile> drawing;
  if (is_reporter && !options.svg.empty()) drawing.emplace(options.svg, options.svg + ".tmp");
  if (drawing && drawing->error() != 0)
    throw_unwritable(*drawing);  // before the measurements, which take minutes
  // A table is printed line by line while it is measured, also into a pipe.
  bool const table = is_reporter && options.format == "table";
  Meter meter(world, plan, options.sizes.back());
  if (table) std::cout << table_head(info) << std::flush;
  std::vector<Row> rows;
  for (std::size_t i = 0; i < options.sizes.size(); ++i) {
    if (is_reporter && !table) show_progress(i, options.sizes);
    rows.push_back(make_row(gather(job, meter.measure(options.sizes[i]), i), plan.operation));
    if (table) std::cout << table_row(rows.back(), plan.check) << std::flush;
  }
  if (is_reporter && !table) show_progress(options.sizes.size(), options.sizes);
  if (table) std::cout << table_foot(rows, plan.check);
  if (is_reporter && options.format == "json") std::cout << json_report(info, rows);
  if (drawing) drawing->write(svg_report(info, rows));
  if (drawing && !drawing->commit()) throw_unwritable(*drawing);
  return std::any_of(rows.begin(), rows.end(), [](const Row& row) { return row.wrong > 0; }) ? 1 : 0;
}

int run(Options& options) {
  parse_arguments(options);
  auto const device = options.device == "gpu"    ? Device::cuda
                      : options.device == "auto" ? Device::automatic
                                                 : Device::cpu;
  auto job = Job::join({.device = device});
  int const code = measure_all(job, options);
  job.leave();
  return code;
}

}  // namespace

void add_bench(CLI::App& app, int& code) {
  auto options = std::make_shared<Options>();
  auto* bench = app.add_subcommand(
      "bench", "Measure a collective, or send and recv, over the ranks of a job (srun, mpirun or alone)");
  const CLI::Validator size(
      [](const std::string& text) {
        return parse_size(text) ? std::string()
                                : "\"" + text.substr(0, 80) + "\" is not a size such as 4, 64K, 1M or 2G";
      },
      "", "size");
  bench
      ->add_option(
          "--op", options->operation,
          "all_reduce (default), all_gather, reduce_scatter, broadcast, reduce, all_to_all, send_recv")
      ->type_name("NAME")
      ->check(CLI::IsMember(operation_names()));
  bench->add_option("--min", options->least, "Smallest size in bytes: 4, 64K, 1M, 2G (default: 8)")
      ->type_name("SIZE")
      ->check(size);
  bench->add_option("--max", options->most, "Largest size (default: 64M)")->type_name("SIZE")->check(size);
  bench->add_option("--factor", options->factor, "From one size to the next (default: 2)")
      ->type_name("N")
      ->check(CLI::Range(2, 1024));
  bench->add_option("--type", options->type, "Type of the elements (default: float32)")
      ->type_name("NAME")
      ->check(CLI::IsMember(type_names()));
  bench
      ->add_option("--iters", options->plan.iterations,
                   "Operations that are timed at each size (default: 20)")
      ->type_name("N")
      ->check(CLI::Range(1, 1000000));
  bench->add_option("--warmup", options->plan.warmup, "Operations before them (default: 5)")
      ->type_name("N")
      ->check(CLI::Range(0, 1000000));
  bench
      ->add_option("--device", options->device,
                   "host, gpu, or auto: the GPU that Muster placed, else host memory (default)")
      ->type_name("WHERE")
      ->check(CLI::IsMember({"auto", "host", "cpu", "gpu"}));
  bench->add_option("--format", options->format, "table or json (default: table)")
      ->type_name("FORMAT")
      ->check(CLI::IsMember({"table", "json"}));
  bench->add_option("--svg", options->svg, "Draw the bandwidths into this file as well")->type_name("FILE");
  bench->add_flag("--check", options->plan.check, "Verify every element of one more operation at each size")
      ->disable_flag_override();
  bench->footer(
      "The columns are those of nccl-tests: time is the mean of the ranks' own means.\n\nExamples:\n"
      "  srun -N2 --ntasks-per-node=8 --gpus-per-task=1 --mpi=pmix --muster muster bench --max 1G\n"
      "  mpirun -n 4 muster bench --device host --op all_gather --check --svg host.svg");
  bench->callback([options, &code] { code = run(*options); });
}

}  // namespace muster::cli
