// SPDX-License-Identifier: Apache-2.0
// Preparation of a run before its first step. Every check that can refuse the run is here.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdio>

#include "compute/cpu/cpu_compute.hpp"
#include "config/setting_warnings.hpp"
#include "config/settings.hpp"
#include "files/hash.hpp"
#include "machine/measure_peak_flops.hpp"
#include "machine/threads.hpp"
#include "run/run.hpp"
#include "text/plural.hpp"

namespace muster {

namespace fs = std::filesystem;

namespace {

/// The settings that must be equal on all ranks, as text. Paths and settings of one machine may differ.
std::string shared_settings(const Options& options) {
  std::string text;
  for (const Setting& setting : list_settings(options)) {
    const bool own = setting.group == "Machine" || setting.name == "data" || setting.name == "output" ||
                     setting.name == "status" || setting.name == "log-every";
    if (!own) text += fmt::format("{}={}\n", setting.name, setting.value);
  }
  return text;
}

template <typename Real>
std::unique_ptr<compute::Compute<Real>> compute_on_cpu(int threads) {
  using Cpu = compute::cpu::CpuCompute<Real>;
  return std::make_unique<Cpu>(typename Cpu::Options{threads, true, nullptr});
}

}  // namespace

void Run::prepare() {
  open_gpu();
  load_data();
  check_same_on_all_ranks();
  check_memory();
  build_replica();
  gather_machine_info();
  resume();
  print_run_info();
  collective_errors_.run_on_rank0([&] { update_status(RunStatus::State::running); });
}

void Run::open_gpu() {
  const auto differ = collective_errors_.differing_ranks(job_.on_gpu() ? 1 : 0);
  collective_errors_.run_on_rank0([&] {
    if (differ.empty()) return;
    throw Error(ErrorCode::usage,
                fmt::format("rank 0 computes on the {} and rank {} does not: pass --device, or start one "
                            "task for each GPU",
                            job_.on_gpu() ? "GPU" : "CPU", fmt::join(differ, ", ")));
  });
  collective_errors_.run_on_all([&] {
    if (job_.on_gpu()) gpu_ = compute::cuda::open_gpu();
  });
}

void Run::load_data() {
  collective_errors_.run_on_all([&] {
    if (options_.batch < world_.size()) {
      throw Error(ErrorCode::usage, fmt::format("--batch {} is less than one sample for each of {} ranks",
                                                options_.batch, world_.size()));
    }
    workload_ = read_workload(options_);
  });
  collective_errors_.run_on_rank0([&] {
    std::error_code error;
    fs::create_directories(options_.output, error);
    if (error) {
      throw Error(ErrorCode::system,
                  fmt::format("cannot create the output folder {}: {}", options_.output, error.message()));
    }
    lock_.emplace(folder());
  });
}

void Run::check_same_on_all_ranks() {
  const std::string text = workload_->model_text() + '\n' + shared_settings(options_);
  const auto options_differ = collective_errors_.differing_ranks(hash_bytes(text.data(), text.size()));
  const auto data_differ = collective_errors_.differing_ranks(workload_->data_hash());
  collective_errors_.run_on_rank0([&] {
    if (!options_differ.empty()) {
      throw Error(ErrorCode::usage, fmt::format("rank {} was started with other options than rank 0",
                                                fmt::join(options_differ, ", ")));
    }
    if (!data_differ.empty()) {
      throw Error(ErrorCode::usage,
                  fmt::format("rank {} read other data from {} than rank 0: give all hosts the same files",
                              fmt::join(data_differ, ", "), options_.data));
    }
  });
}

template <typename Real>
void Run::build_replica_on(std::unique_ptr<compute::Compute<Real>> compute, Communicator tensors) {
  replica_ = std::make_unique<Replica>(replica_settings(), *workload_, *compute, std::move(tensors), world_);
  measure_peak_flops_ = [&of = *compute] { return measure_peak_flops(of); };
  compute_ = std::move(compute);
}

void Run::build_replica() {
  collective_errors_.run_on_all([&] {
    const int threads = gpu_.compute ? 1 : choose_threads(options_.threads, job_.roster(), job_.rank());
    if (gpu_.compute)
      build_replica_on(std::move(gpu_.compute), job_.world());
    else if (options_.dtype == "bf16")
      build_replica_on<bfloat16>(compute_on_cpu<bfloat16>(threads), world_);
    else
      build_replica_on<float>(compute_on_cpu<float>(threads), world_);
    if (is_rank0()) {
      replica_->initialize();
      writer_ = std::make_unique<CheckpointWriter>(checkpoints_, replica_->table());
    }
    state_.threads = threads;
  });
  state_.model = workload_->model_text();
  state_.seed = options_.seed;
  state_.batch = options_.batch;
  state_.dtype = options_.dtype;
  state_.data_hash = workload_->data_hash();
  state_.world_size = world_.size();
  state_.chunk = options_.deterministic ? options_.chunk : 0;
}

void Run::gather_machine_info() {
  RankInfo mine = read_rank_info(job_.roster()[static_cast<std::size_t>(job_.rank())]);
  mine.threads = choose_threads(options_.threads, job_.roster(), job_.rank());
  flops_per_prediction_ =
      workload_->flops_per_sample() / static_cast<double>(workload_->predictions_per_sample());
  world_.barrier();  // so that ranks that share cores measure at the same time
  collective_errors_.run_on_all([&] {
    if (options_.mfu) mine.peak_flops = measure_peak_flops_();
  });
  rank_info_ = gather_rank_info(world_, mine);
  for (const RankInfo& rank : rank_info_) peak_flops_ += rank.peak_flops;
}

void Run::print_run_info() {
  if (!is_rank0()) return;
  fmt::print("{}: {} parameters\n", workload_->model_line(), replica_->table().parameter_count);
  fmt::print("on {} on {}, each {} in {}; {} {}s a step\n", plural(world_.size(), "rank"),
             plural(job_.host_count(), "host"), compute_->describe(), options_.dtype,
             replica_->predictions_per_step(), workload_->unit());
  if (!job_.on_gpu() && options_.dtype == "bf16" && !compute::cpu::DnnlMatmul::has_fast_bfloat16()) {
    fmt::print(
        "warning: --dtype=bf16 is slower here than fp32: it pays with oneDNN on processors with AVX-512 "
        "BF16\n");
  }
  if (peak_flops_ > 0) {
    fmt::print("peak {} measured in {} matrix products; the model needs {:.4g} MFLOP a{} {}\n",
               format_flops(peak_flops_), options_.dtype, flops_per_prediction_ / 1e6,
               workload_->unit() == std::string_view("image") ? "n" : "", workload_->unit());
  }
  print_memory_estimate();
  fmt::print("data {}, {}\n", options_.data, workload_->data_line());
  for (const std::string& note : setting_warnings(options_, world_.size(), workload_->samples_per_epoch()))
    fmt::print("note: {}\n", note);
  if (first_step_ >= options_.steps) {
    fmt::print(
        "all {} steps are done already: raise --steps to train on, or pass --resume=off to start anew\n",
        options_.steps);
  }
  std::fflush(stdout);
}

}  // namespace muster
