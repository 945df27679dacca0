// SPDX-License-Identifier: Apache-2.0
#include "trainer.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <memory>
#include <optional>

#include "agreement.hpp"
#include "atomic_file.hpp"
#include "compute/cpu/cpu_compute.hpp"
#include "hash.hpp"
#include "interrupt.hpp"
#include "metrics.hpp"
#include "plot.hpp"
#include "progress.hpp"
#include "replica.hpp"
#include "schedule.hpp"
#include "threads.hpp"

namespace muster {
namespace {

namespace fs = std::filesystem;

std::string plural(std::int64_t count, const char* thing) {
  return fmt::format("{} {}{}", count, thing, count == 1 ? "" : "s");
}

/// One rank's run, from data to the last checkpoint. Every function is collective.
class Run {
 public:
  Run(const Options& options, Job& job);
  int train();

 private:
  void refuse_gpu();
  void load_data();
  void require_equal_everywhere();
  void build_replica();
  void resume();
  void announce();

  void loop(Progress& progress);
  void record(Progress& progress, std::int64_t done, const StepResult& result, double learning_rate);
  [[noreturn]] void end_not_finite(std::int64_t step, const StepResult& result);
  int stop_signal();
  void validate(Progress& progress);
  void checkpoint(Progress& progress);
  void write_plot();
  bool first() const { return world_.rank() == 0; }

  const Options& options_;
  Job& job_;
  Communicator world_;
  Agreement agreement_;
  fs::path checkpoint_path_, metrics_path_, plot_path_;

  data::Corpus corpus_;
  std::unique_ptr<compute::Compute<float>> compute_;
  std::unique_ptr<Replica> replica_;
  std::unique_ptr<Metrics> metrics_;   ///< rank 0 only
  std::optional<Error> output_error_;  ///< what kept rank 0 from writing metrics
  TrainingState state_;
  bool resumed_ = false;
  std::int64_t first_step_ = 0, validated_step_ = -1, saved_step_ = -1;
  int signal_ = 0;
};

Run::Run(const Options& options, Job& job)
    : options_(options),
      job_(job),
      world_(job.host_world()),
      agreement_(world_),
      checkpoint_path_(fs::path(options.output) / "checkpoint.safetensors"),
      metrics_path_(fs::path(options.output) / "metrics.jsonl"),
      plot_path_(fs::path(options.output) / "loss.svg") {}

void Run::refuse_gpu() {
  agreement_.together([&] {
    if (job_.on_gpu()) {
      throw Error(
          Fault::device,
          fmt::format(
              "rank {} on {} has GPU {}, but this version computes on the CPU only: pass --device=cpu",
              job_.rank(), job_.roster()[static_cast<std::size_t>(job_.rank())].host,
              job_.roster()[static_cast<std::size_t>(job_.rank())].gpu));
    }
  });
}

void Run::load_data() {
  agreement_.together([&] {
    if (options_.batch < world_.size()) {
      throw Error(Fault::usage, fmt::format("--batch {} is less than one sequence for each of {} ranks",
                                            options_.batch, world_.size()));
    }
    corpus_ = data::Corpus::read(options_.data, options_.validation_fraction);
  });
  agreement_.on_first_rank([&] {
    std::error_code error;
    fs::create_directories(options_.output, error);
    if (error) {
      throw Error(Fault::system,
                  fmt::format("cannot create the output folder {}: {}", options_.output, error.message()));
    }
  });
}

void Run::require_equal_everywhere() {
  const auto& o = options_;
  const std::string text = fmt::format(
      "{} {} {} {} {} {} {} {} {} {} {} {} {} {} {} {} {} {} {}", o.model.layers, o.model.heads, o.model.width,
      o.model.context, o.batch, o.steps, o.learning_rate, o.min_learning_rate, o.warmup, o.adamw.beta1,
      o.adamw.beta2, o.adamw.weight_decay, o.adamw.clip, o.seed, o.eval_every, o.checkpoint_every, o.resume,
      o.deterministic, o.chunk);
  const auto options_differ = agreement_.differing_ranks(hash_bytes(text.data(), text.size()));
  const auto data_differ = agreement_.differing_ranks(corpus_.hash());
  agreement_.on_first_rank([&] {
    if (!options_differ.empty()) {
      throw Error(Fault::usage, fmt::format("rank {} was started with other options than rank 0",
                                            fmt::join(options_differ, ", ")));
    }
    if (!data_differ.empty()) {
      throw Error(Fault::usage,
                  fmt::format("rank {} read other bytes from {} than rank 0: give all hosts the same files",
                              fmt::join(data_differ, ", "), o.data));
    }
  });
}

void Run::build_replica() {
  agreement_.together([&] {
    const int threads = choose_threads(options_.threads, job_.roster(), job_.rank());
    compute_ = std::make_unique<compute::cpu::CpuCompute<float>>(
        compute::cpu::CpuCompute<float>::Options{threads, true, nullptr});
    replica_ = std::make_unique<Replica>(
        Replica::Settings{options_.model, options_.adamw, options_.batch, options_.seed,
                          options_.deterministic ? options_.chunk : 0},
        corpus_, *compute_, world_);
    if (first()) replica_->initialize();
  });
  state_ = {0, 0, options_.seed, options_.batch, corpus_.hash(), options_.model};
}

void Run::resume() {
  std::string differences;
  agreement_.on_first_rank([&] {
    if (options_.resume == "off" || (options_.resume == "auto" && !fs::exists(checkpoint_path_))) return;
    const fs::path from = options_.resume == "auto" ? checkpoint_path_ : fs::path(options_.resume);
    const TrainingState found = read_checkpoint(from, options_.model, replica_->table(), replica_->tensors());
    if (found.seed != state_.seed) differences += " --seed";
    if (found.batch != state_.batch) differences += " --batch";
    if (found.data_hash != state_.data_hash) differences += " --data";
    state_.step = found.step;
    state_.samples = found.samples;
    resumed_ = true;
    fmt::print("resuming {} after step {}\n", from.string(), found.step);
    if (!differences.empty())
      fmt::print("note: the checkpoint was made with other values of{}\n", differences);
  });
  std::int64_t position[] = {state_.step, state_.samples, resumed_ ? 1 : 0};
  world_.broadcast(std::span<std::int64_t>(position), 0);
  state_.step = first_step_ = position[0];
  state_.samples = position[1];
  resumed_ = position[2] != 0;
  if (resumed_) saved_step_ = options_.resume == "auto" ? state_.step : -1;
  replica_->broadcast();
  agreement_.on_first_rank(
      [&] { metrics_ = std::make_unique<Metrics>(metrics_path_, resumed_, state_.step); });
}

void Run::announce() {
  if (!first()) return;
  const auto& model = options_.model;
  fmt::print("gpt: {}, {}, width {}, context {}: {} parameters\n", plural(model.layers, "layer"),
             plural(model.heads, "head"), model.width, model.context, replica_->table().parameter_count);
  fmt::print("on {} on {}, each {}; {} bytes a step\n", plural(world_.size(), "rank"),
             plural(job_.host_count(), "host"), compute_->describe(), replica_->tokens_per_step());
  fmt::print("data {} ({}): {} bytes to train on, {} held out\n", options_.data,
             plural(static_cast<std::int64_t>(corpus_.file_count()), "file"), corpus_.training().size(),
             corpus_.held_out_size());
  if (first_step_ >= options_.steps) {
    fmt::print(
        "all {} steps are done already: raise --steps to train on, or pass --resume=off to start anew\n",
        options_.steps);
  }
  std::fflush(stdout);
}

int Run::train() {
  refuse_gpu();
  load_data();
  require_equal_everywhere();
  build_replica();
  resume();
  announce();
  watch_for_interrupts();
  {
    Progress progress(first(), options_.log_every, first_step_, options_.steps);
    loop(progress);
    if (signal_ == 0 && validated_step_ != state_.step) validate(progress);
    if (saved_step_ != state_.step) checkpoint(progress);
  }
  agreement_.on_first_rank([&] {
    metrics_->flush();
    write_plot();
    if (signal_ != 0) fmt::print("stopped by signal {} after step {}\n", signal_, state_.step);
    fmt::print("metrics    {}\ncheckpoint {}\nplot       {}\n", metrics_path_.string(),
               checkpoint_path_.string(), plot_path_.string());
  });
  return signal_ == 0 ? 0 : 128 + signal_;
}

void Run::loop(Progress& progress) {
  const Schedule schedule{options_.learning_rate, options_.min_learning_rate, options_.warmup,
                          options_.steps};
  const auto is_due = [&](std::int64_t every) { return every > 0 && state_.step % every == 0; };
  while (state_.step < options_.steps) {
    const double learning_rate = schedule.at(state_.step);
    const StepResult result = replica_->step(state_.step, state_.samples, learning_rate,
                                             {interrupt_received() != 0, output_error_.has_value()});
    if (!result.finite) end_not_finite(state_.step + 1, result);
    ++state_.step;
    state_.samples += options_.batch;
    if (first()) record(progress, state_.step, result, learning_rate);
    if (result.any_failed) {
      agreement_.together([&] {
        if (output_error_) throw *output_error_;
      });
    }
    if (result.any_stop) {
      signal_ = stop_signal();
      return;
    }
    if (is_due(options_.eval_every)) validate(progress);
    if (is_due(options_.checkpoint_every)) checkpoint(progress);
  }
}

void Run::record(Progress& progress, std::int64_t done, const StepResult& result, double learning_rate) {
  progress.step(done, result.loss, replica_->tokens_per_step());
  metrics_->training(done, result.loss, learning_rate, result.gradient_norm, progress.rate(),
                     result.exposed);
  if (!progress.due() || output_error_) return;
  try {
    metrics_->flush();
  } catch (const Error& error) {
    output_error_ = error;  // told to all with the next step
  }
}

void Run::end_not_finite(std::int64_t step, const StepResult& result) {
  const auto broken = agreement_.gather(result.finite_here ? 0 : 1);
  agreement_.on_first_rank([&] {
    std::string where = "only in the sum over ranks";
    for (std::size_t rank = 0; rank < broken.size(); ++rank) {
      if (broken[rank] == 0) continue;
      where = fmt::format("on rank {} ({})", rank, job_.roster()[rank].host);
      break;
    }
    throw TrainingFailure(fmt::format(
        "loss or gradients are not finite at step {}, {}: stopped before the update; {}try a lower "
        "--learning-rate",
        step, where,
        saved_step_ >= 0 ? fmt::format("{} holds step {}; ", checkpoint_path_.string(), saved_step_) : ""));
  });
  throw EndedTogether(1);
}

int Run::stop_signal() {
  std::int32_t signal = interrupt_received();
  world_.all_reduce(std::span<std::int32_t>(&signal, 1), Reduction::max);
  return signal;
}

void Run::validate(Progress& progress) {
  if (corpus_.held_out_size() == 0) return;
  progress.pause();
  const Average mean = replica_->validate();
  const double loss = mean.value();
  const auto bytes = static_cast<std::int64_t>(mean.weight);
  progress.line(fmt::format("validation loss {:.4f} nats/byte over {} bytes, after step {}", loss, bytes,
                            state_.step));
  if (first()) metrics_->validation(state_.step, loss, bytes);
  validated_step_ = state_.step;
  progress.go_on();
}

void Run::checkpoint(Progress& progress) {
  progress.pause();
  const std::uint64_t hash = replica_->parameter_hash();
  const auto differing = agreement_.differing_ranks(hash);
  agreement_.on_first_rank([&] {
    if (!differing.empty()) {
      throw TrainingFailure(fmt::format("parameters differ from rank 0's on rank {} after step {}: not saved",
                                        fmt::join(differing, ", "), state_.step));
    }
    progress.line(
        fmt::format("parameters identical on {} (hash {:016x})", plural(world_.size(), "rank"), hash));
    try {
      write_checkpoint(checkpoint_path_, state_, replica_->table(), replica_->tensors());
      saved_step_ = state_.step;
      metrics_->flush();
      write_plot();
    } catch (const Error& error) {
      throw Error(error.fault(),
                  fmt::format("{}; stopped after step {}, {}", error.what(), state_.step,
                              saved_step_ >= 0 ? fmt::format("the checkpoint of step {} is good", saved_step_)
                                               : std::string("nothing was saved before")));
    }
    progress.line(fmt::format("checkpoint {} after step {}", checkpoint_path_.string(), state_.step));
  });
  saved_step_ = state_.step;
  progress.go_on();
}

void Run::write_plot() {
  const auto& model = options_.model;
  AtomicFile file(plot_path_);
  file.write(
      draw_loss_plot({fmt::format("GPT on {}", fs::path(options_.data).filename().string()),
                      fmt::format("{}, {}, width {}, context {}; {} sequences a step on {}",
                                  plural(model.layers, "layer"), plural(model.heads, "head"), model.width,
                                  model.context, options_.batch, plural(world_.size(), "rank")),
                      metrics_->training_losses(), metrics_->validation_losses()}));
  file.commit();
}

}  // namespace

int train(const Options& options, Job& job) { return Run(options, job).train(); }

}  // namespace muster
