// SPDX-License-Identifier: Apache-2.0
#include "run/checkpointer.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <chrono>

#include "text/plural.hpp"

namespace muster {

namespace fs = std::filesystem;

namespace {

/// Options that make this a different run than the checkpoint's, for example " --seed --batch".
std::string differing_options(const TrainingState& mine, const TrainingState& found) {
  std::string options;
  if (found.seed != mine.seed) options += " --seed";
  if (found.batch != mine.batch) options += " --batch";
  if (found.data_hash != mine.data_hash) options += " --data (or --validation-fraction)";
  return options;
}

/// Describes a difference that changes the bits of later steps but not the run; empty when there is none.
/// `rank_dependence`: the strategy's.
std::string differing_bits(const TrainingState& mine, const TrainingState& found,
                           const std::string& rank_dependence) {
  if (found.dtype != mine.dtype) return fmt::format("--dtype={}, now {}", found.dtype, mine.dtype);
  if (found.chunk != mine.chunk) return "another --deterministic or --chunk";
  if (found.threads != mine.threads)
    return fmt::format("{}, now {}", plural(found.threads, "thread"), mine.threads);
  if (found.world_size != mine.world_size && !rank_dependence.empty())
    return fmt::format("{}, now {}, {}", plural(found.world_size, "rank"), mine.world_size, rank_dependence);
  return "";
}

void require_same_tensors(const TrainingState& mine, const TrainingState& found, const fs::path& where) {
  const auto require = [&](const char* what, const std::string& own, const std::string& there) {
    if (there == own) return;
    throw Error(ErrorCode::usage,
                fmt::format("{} holds another {} ({}) than the options ({}): use the same, another "
                            "--output, or --resume=off",
                            where.string(), what, there, own));
  };
  require("model", mine.model, found.model);
  require("optimizer's state", mine.optimizer, found.optimizer);
}

/// Copies the run's other results to the folder that its checkpoints were moved to.
void copy_results(const fs::path& from, const fs::path& to) {
  for (const char* name :
       {"metrics.jsonl", "summary.json", "report.html", "loss.svg", "autotune.json", "matmul_plans.json"}) {
    std::error_code error;
    if (!fs::exists(from / name, error)) continue;
    fs::copy_file(from / name, to / name, fs::copy_options::overwrite_existing, error);
    if (error) {
      throw Error(ErrorCode::system, fmt::format("cannot copy {} to {}: {}", (from / name).string(),
                                                 to.string(), error.message()));
    }
  }
}

/// Empty: none.
fs::path newest_good(const CheckpointFolder& folder) {
  for (const std::int64_t step : folder.steps()) {
    fs::path path = folder.checkpoint_path(step);
    try {
      if (Checkpoint(path).state().skipped == 0) return path;
    } catch (const Error&) {  // damaged
    }
  }
  return {};
}

bool is_directly_in(const fs::path& folder, const fs::path& path) {
  std::error_code ignored;
  return fs::weakly_canonical(path, ignored).parent_path() == fs::weakly_canonical(folder, ignored);
}

}  // namespace

Checkpointer::Checkpointer(const Options& options, TrainingState& state, Strategy& strategy,
                           Communicator world, CollectiveErrors& errors)
    : options_(options),
      state_(state),
      strategy_(&strategy),
      world_(std::move(world)),
      errors_(errors),
      resume_(options.resume),
      path_(fs::path(options.output) / "checkpoints"),
      table_(strategy.table()),
      folder_(path_, options.keep),
      writer_(folder_, table_, strategy.checkpoint_parts()) {}

std::optional<CheckpointFolder::Found> Checkpointer::read_newest() {
  const auto check_state = [&](const TrainingState& found) {
    require_same_tensors(state_, found, path_);
    const std::string differences = differing_options(state_, found);
    if (differences.empty()) return;
    throw Error(ErrorCode::usage,
                fmt::format("the run in {} was made with other values of{}: use the same, another --output, "
                            "or --resume=off",
                            path_.string(), differences));
  };
  const auto skipped = [](const std::string& why) { fmt::print("skipping a checkpoint: {}\n", why); };
  return folder_.read_newest(table_, writer_.copy_buffers(), check_state, skipped);
}

std::optional<CheckpointFolder::Found> Checkpointer::read_named() {
  std::optional<CheckpointFolder::Found> found;
  if (resume_ != "off") {
    std::error_code ignored;
    if (!fs::exists(resume_, ignored)) {
      throw Error(ErrorCode::usage,
                  fmt::format("--resume {}: there is no such folder: name a checkpoint's (step-…), "
                              "or pass auto or off",
                              resume_));
    }
    const Checkpoint checkpoint{fs::path(resume_)};
    require_same_tensors(state_, checkpoint.state(), resume_);
    checkpoint.read(table_, writer_.copy_buffers());
    found = {resume_, checkpoint.state()};
    const std::string differences = differing_options(state_, checkpoint.state());
    if (!differences.empty())
      fmt::print("note: the checkpoint was made with other values of{}\n", differences);
  }
  // The existing checkpoints belong to another course of this run; a later start must not resume from them.
  if (const auto aside = folder_.set_aside()) {
    copy_results(options_.output, *aside);
    fmt::print("earlier checkpoints of this folder are now in {}, beside the results\n", aside->string());
  }
  return found;
}

void Checkpointer::begin_at(const CheckpointFolder::Found& found) {
  const std::string differences = differing_bits(state_, found.state, strategy_->rank_dependence());
  const std::string changes = describe_changed_settings(found.state, state_);
  state_.step = found.state.step;
  state_.samples = found.state.samples;
  state_.skipped = found.state.skipped;
  state_.autotune = found.state.autotune;
  resumed_ = true;
  fmt::print("resuming {} after step {}\n", found.path.string(), state_.step);
  // Saved into this run's own folder, so that the next start resumes from there.
  const fs::path path = resume_ == "auto" ? found.path : folder_.save(state_, table_, writer_.copy_buffers());
  if (state_.skipped == 0) good_ = path;
  if (!differences.empty())
    fmt::print("note: the checkpoint was made with {}: later steps have other bits\n", differences);
  if (!changes.empty())
    fmt::print("note: the checkpoint was made with {}: later steps use the new values\n", changes);
}

void Checkpointer::open_folder() {
  if (!is_open_) folder_.open();
  is_open_ = true;
}

void Checkpointer::continue_with(Strategy& strategy, Communicator world) {
  strategy_ = &strategy;
  world_ = std::move(world);
  resume_ = "auto";
  errors_.run_on_rank0([&] {
    if (is_open_) return;
    saved_step_ = -1;
    open_folder();
    good_ = newest_good(folder_);
  });
  world_.broadcast(std::span<std::int64_t>(&saved_step_, 1), 0);
}

void Checkpointer::resume() {
  resumed_ = false;
  // Before read_named() renames the folder.
  resumes_own_ = resume_ == "auto" || is_directly_in(path_, resume_);
  errors_.run_on_rank0([&] {
    open_folder();
    if (const auto found = resume_ == "auto" ? read_newest() : read_named()) begin_at(*found);
  });
  std::int64_t position[] = {state_.step, state_.samples, state_.skipped, resumed_ ? 1 : 0};
  world_.broadcast(std::span<std::int64_t>(position), 0);
  state_.step = position[0];
  state_.samples = position[1];
  state_.skipped = position[2];
  resumed_ = position[3] != 0;
  if (!resumed_) return strategy_->broadcast();
  saved_step_ = state_.step;
  strategy_->scatter_state(world_.rank() == 0 ? writer_.copy_buffers() : TrainingTensors{});
}

void Checkpointer::save(Progress& progress, const std::function<std::function<void()>()>& before) {
  progress.pause_timer();
  TrainingTensors copy_buffers;
  std::function<void()> after;
  const std::uint64_t hash = strategy_->parameter_hash();
  const auto differing = errors_.differing_ranks(hash);
  errors_.run_on_rank0([&] {
    if (!differing.empty()) {
      throw TrainingError(fmt::format("parameters differ from rank 0's on rank {} after step {}: not saved",
                                      fmt::join(differing, ", "), state_.step));
    }
    progress.line(
        fmt::format("parameters identical on {} (hash {:016x})", plural(world_.size(), "rank"), hash));
    finish(progress, true);  // only one checkpoint is written at a time
    try {
      after = before();
    } catch (const Error& error) {
      throw with_good_checkpoint(error);
    }
    copy_buffers = writer_.copy_buffers();
  });
  const auto from = std::chrono::steady_clock::now();
  strategy_->gather_state(copy_buffers);
  const double copied = std::chrono::duration<double>(std::chrono::steady_clock::now() - from).count();
  errors_.run_on_rank0([&] { writer_.start(state_, copied, std::move(after)); });
  saved_step_ = state_.step;
  progress.resume_timer();
}

void Checkpointer::finish(Progress& progress, bool wait) {
  try {
    const auto written = wait ? writer_.wait() : writer_.poll();
    if (!written) return;
    if (written->state.skipped == 0) good_ = written->path;
    progress.line(
        fmt::format("checkpoint {} after step {}: copied in {:.1f} ms, written beside training in {:.1f} ms",
                    written->path.string(), written->state.step, 1e3 * written->copy_seconds,
                    1e3 * written->write_seconds));
  } catch (const Error& error) {
    throw with_good_checkpoint(error);
  }
}

fs::path Checkpointer::good() const {
  return !good_.empty() && Checkpoint::is_checkpoint(good_) ? good_ : fs::path();
}

std::string Checkpointer::describe_good() const {
  if (good_.empty()) return "nothing was saved before";
  return fmt::format("{} {}", good_.string(), good().empty() ? "was deleted" : "is good");
}

Error Checkpointer::with_good_checkpoint(const Error& error) const {
  return {error.code(),
          fmt::format("{}; stopped after step {}, {}", error.what(), state_.step, describe_good())};
}

}  // namespace muster
