// SPDX-License-Identifier: Apache-2.0
// Chooses where a run begins: at the newest good checkpoint, or anew.
#include <fmt/format.h>

#include <cstdio>
#include <utility>

#include "run/run.hpp"
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
std::string differing_bits(const TrainingState& mine, const TrainingState& found) {
  if (found.dtype != mine.dtype) return fmt::format("--dtype={}, now {}", found.dtype, mine.dtype);
  if (found.chunk != mine.chunk) return "another --deterministic or --chunk";
  if (found.threads != mine.threads)
    return fmt::format("{}, now {}", plural(found.threads, "thread"), mine.threads);
  if (found.world_size != mine.world_size && mine.chunk == 0)
    return fmt::format("{}, now {}, without --deterministic", plural(found.world_size, "rank"),
                       mine.world_size);
  return "";
}

void require_model(const TrainingState& mine, const TrainingState& found, const fs::path& where) {
  if (found.model == mine.model) return;
  throw Error(ErrorCode::usage,
              fmt::format("{} holds another model ({}) than the options ({}): use the same, another "
                          "--output, or --resume=off",
                          where.string(), found.model, mine.model));
}

/// Copies the run's other results to the folder that its checkpoints were moved to.
void copy_results(const fs::path& from, const fs::path& to) {
  for (const char* name : {"metrics.jsonl", "summary.json", "report.html", "loss.svg"}) {
    std::error_code error;
    if (!fs::exists(from / name, error)) continue;
    fs::copy_file(from / name, to / name, fs::copy_options::overwrite_existing, error);
    if (error) {
      throw Error(ErrorCode::system, fmt::format("cannot copy {} to {}: {}", (from / name).string(),
                                                 to.string(), error.message()));
    }
  }
}

bool is_directly_in(const fs::path& folder, const fs::path& path) {
  std::error_code ignored;
  return fs::weakly_canonical(path, ignored).parent_path() == fs::weakly_canonical(folder, ignored);
}

}  // namespace

std::optional<CheckpointFolder::Found> Run::newest_checkpoint() {
  const auto check_state = [&](const TrainingState& found) {
    require_model(state_, found, checkpoints_path_);
    const std::string differences = differing_options(state_, found);
    if (differences.empty()) return;
    throw Error(ErrorCode::usage,
                fmt::format("the run in {} was made with other values of{}: use the same, another --output, "
                            "or --resume=off",
                            checkpoints_path_.string(), differences));
  };
  const auto skipped = [](const std::string& why) { fmt::print("skipping a checkpoint: {}\n", why); };
  return checkpoints_.read_newest(replica_->table(), writer_->copy_buffers(), check_state, skipped);
}

std::optional<CheckpointFolder::Found> Run::named_checkpoint() {
  std::optional<CheckpointFolder::Found> found;
  if (options_.resume != "off") {
    std::error_code ignored;
    if (!fs::exists(options_.resume, ignored)) {
      throw Error(ErrorCode::usage,
                  fmt::format("--resume {}: there is no such folder: name a checkpoint's (step-…), "
                              "or pass auto or off",
                              options_.resume));
    }
    const Checkpoint checkpoint{fs::path(options_.resume)};
    require_model(state_, checkpoint.state(), options_.resume);
    checkpoint.read(replica_->table(), writer_->copy_buffers());
    found = {options_.resume, checkpoint.state()};
    const std::string differences = differing_options(state_, checkpoint.state());
    if (!differences.empty())
      fmt::print("note: the checkpoint was made with other values of{}\n", differences);
  }
  // The existing checkpoints belong to another course of this run; a later start must not resume from them.
  if (const auto aside = checkpoints_.set_aside()) {
    copy_results(folder(), *aside);
    fmt::print("earlier checkpoints of this folder are now in {}, beside the results\n", aside->string());
  }
  return found;
}

void Run::resume() {
  const bool newest = options_.resume == "auto";
  // The checkpoint is in this output folder, so its metrics are continued.
  const bool own = newest || is_directly_in(checkpoints_path_, options_.resume);
  collective_errors_.run_on_rank0([&] {
    checkpoints_.open();
    const auto found = newest ? newest_checkpoint() : named_checkpoint();
    if (!found) return;
    const std::string differences = differing_bits(state_, found->state);
    state_.step = found->state.step;
    state_.samples = found->state.samples;
    state_.skipped = found->state.skipped;
    resumed_ = true;
    fmt::print("resuming {} after step {}\n", found->path.string(), state_.step);
    // Saved into this run's own folder, so that the next start resumes from there.
    const fs::path path =
        newest ? found->path : checkpoints_.save(state_, replica_->table(), writer_->copy_buffers());
    if (state_.skipped == 0) good_checkpoint_ = path;
    if (!differences.empty())
      fmt::print("note: the checkpoint was made with {}: later steps have other bits\n", differences);
  });
  std::int64_t position[] = {state_.step, state_.samples, state_.skipped, resumed_ ? 1 : 0};
  world_.broadcast(std::span<std::int64_t>(position), 0);
  state_.step = first_step_ = position[0];
  state_.samples = position[1];
  state_.skipped = position[2];
  resumed_ = position[3] != 0;
  if (resumed_) last_checkpoint_step_ = state_.step;
  if (resumed_) {
    replica_->scatter_state(is_rank0() ? writer_->copy_buffers() : TrainingTensors{});
  } else {
    replica_->broadcast();
  }
  collective_errors_.run_on_rank0([&] {
    metrics_ = std::make_unique<Metrics>(metrics_path_, resumed_ && own, state_.step);
    if (options_.tensorboard) events_ = std::make_unique<EventFile>(folder() / "tensorboard", state_.step);
  });
}

}  // namespace muster
