// SPDX-License-Identifier: Apache-2.0
#include "config/options.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "config/declare_options.hpp"
#include "config/option_validators.hpp"
#include "config/setting_sources.hpp"
#include "muster/error.hpp"

namespace muster {
namespace {

constexpr std::int64_t max_steps = 1'000'000'000'000;
/// Upper bound of one rank's activation rows: far more than a CPU can train on, and index arithmetic stays
/// within an int.
constexpr std::int64_t max_tokens = 1 << 22;

const std::map<std::string, Device> devices{
    {"auto", Device::automatic}, {"cpu", Device::cpu}, {"cuda", Device::cuda}};

CLI::Validator non_negative() {
  return number("at or above 0", [](double value) { return std::isfinite(value) && value >= 0; });
}

CLI::Validator below_one() {
  return number("at or above 0 and below 1", [](double value) { return value >= 0 && value < 1; });
}

void add_data_options(CLI::App& app, Options& o) {
  add_option(app, "Data", "--data", o.data,
             "Text, whose tokens are its bytes, or token shards (.bin) as llm.c writes them: a file, a "
             "folder, or a comma list of files and patterns; for mnist-cnn the folder of MNIST's four files");
  add_option(app, "Data", "--validation-fraction", o.validation_fraction,
             "Part of the data, at its end, that is held out; 0: none. Shards named _val_ are held out "
             "instead")
      ->check(number(0, 0.9));
  add_option(app, "Data", "--validation-tokens", o.validation_tokens,
             "Validate on at most this many held-out tokens, the first ones; 0: on all")
      ->check(integer(std::int64_t{0}, max_steps));
}

void add_model_options(CLI::App& app, Options& o) {
  const char* group = "Model";
  add_option(app, group, "--model", o.model_name,
             "A GPT: small (4 layers, 4 heads, width 128, context 64, vocabulary 256) or a size of GPT-2's "
             "(context 1024, vocabulary 50257); or Horovod's example network for MNIST's files")
      ->type_name(fmt::format("{}", fmt::join(model_names(), "|")))
      ->check(one_of(model_names()));
  add_option(app, group, "--layers", o.shape.layers, "Transformer layers, instead of the model's")
      ->check(integer(1, 1024));
  add_option(app, group, "--heads", o.shape.heads,
             "Attention heads, instead of the model's; must divide the width")
      ->check(integer(1, 1024));
  add_option(app, group, "--width", o.shape.width, "Width of the residual stream, instead of the model's")
      ->check(integer(1, 65536));
  add_option(app, group, "--context", o.shape.context,
             "Tokens in a training sequence, instead of the model's")
      ->check(integer(1, 65536));
  add_option(app, group, "--vocabulary", o.shape.vocabulary,
             "Vocabulary size: every token is below it; a text's tokens are its bytes")
      ->check(integer(2, compute::most_tokens_in_vocabulary));
}

void add_training_options(CLI::App& app, Options& o) {
  const char* group = "Training";
  add_option(app, group, "--batch", o.batch, "Samples (sequences, images) per step over all ranks together")
      ->check(integer(1, 1 << 20));
  add_option(app, group, "--steps", o.steps, "Updates in the whole run")
      ->check(integer(std::int64_t{1}, max_steps));
  add_option(app, group, "--learning-rate", o.learning_rate,
             "Peak learning rate; the default for GPT-2's sizes is lower, 6e-4 (124M) to 2e-4 (1558M)")
      ->check(number("above 0", [](double rate) { return std::isfinite(rate) && rate > 0; }));
  add_option(app, group, "--min-learning-rate", o.min_learning_rate,
             "Learning rate at the last step; for GPT-2's sizes a tenth of their peak")
      ->check(non_negative());
  add_option(app, group, "--warmup", o.warmup,
             "Steps of linear rise to the peak, before the half-cosine decay")
      ->check(integer(std::int64_t{0}, max_steps));
  add_option(app, group, "--weight-decay", o.adamw.weight_decay, "AdamW's decay of matrices and embeddings")
      ->check(non_negative());
  add_option(app, group, "--beta1", o.adamw.beta1, "AdamW's decay of the first moment")->check(below_one());
  add_option(app, group, "--beta2", o.adamw.beta2, "AdamW's decay of the second moment")->check(below_one());
  add_option(app, group, "--clip", o.adamw.clip, "Largest global gradient norm; 0: no clipping")
      ->check(non_negative());
  add_option(app, group, "--dtype", o.dtype,
             "Type that the model computes in; with bf16, parameters, gradients and AdamW's moments stay in "
             "float32")
      ->type_name("fp32|bf16")
      ->check(one_of({"fp32", "bf16"}));
  add_switch(app, group, "deterministic", o.deterministic,
             "The same bits for any number of ranks: gradients are added in a fixed tree, chunk by chunk");
  add_option(app, group, "--chunk", o.chunk,
             "Samples in a chunk with --deterministic; each chunk is computed by itself")
      ->check(integer(1, 1 << 20));
  add_switch(
      app, group, "shard-optimizer", o.shard_optimizer,
      "Each rank keeps the optimizer's state of its part of the parameters only (ZeRO-1): the same bits, "
      "less memory, 1.5 times as much communication");
  add_option(app, group, "--stop-after-skipped", o.stop_after_skipped,
             "End the run after this many updates in a row were skipped because loss or gradients were not "
             "finite")
      ->check(integer(std::int64_t{1}, max_steps));
  add_option(app, group, "--seed", o.seed, "Seed of the initial weights and the order of samples")
      ->check(integer(std::uint64_t{0}, ~std::uint64_t{0}).description(""));
}

void add_output_options(CLI::App& app, Options& o) {
  const char* group = "Output";
  add_option(app, group, "--output", o.output,
             "Folder for checkpoints, metrics, status, summary, plot and report; created");
  add_option(
      app, group, "--resume", o.resume,
      "auto: continue from the output folder's newest good checkpoint, if any; off: start anew; FOLDER: "
      "continue from this checkpoint (step-…)")
      ->type_name("auto|off|FOLDER");
  add_option(app, group, "--eval-every", o.eval_every, "Steps between validations; 0: only at the end")
      ->check(integer(std::int64_t{0}, max_steps));
  add_option(app, group, "--checkpoint-every", o.checkpoint_every,
             "Steps between checkpoints; 0: only at the end")
      ->check(integer(std::int64_t{0}, max_steps));
  add_option(app, group, "--keep", o.keep, "Number of good checkpoints to keep; older ones are removed")
      ->check(integer(std::int64_t{1}, max_steps));
  add_option(
      app, group, "--status", o.status,
      "File with one line that says whether the run is finished or should be started again; if not given, "
      "status.json in the output folder")
      ->type_name("FILE");
  add_option(app, group, "--log-every", o.log_every,
             "Seconds between progress lines when output is not a terminal")
      ->type_name("SECONDS")
      ->check(number(0, 86400));
  add_switch(app, group, "tensorboard", o.tensorboard,
             "Event files for TensorBoard, in the folder's tensorboard/");
}

void add_machine_options(CLI::App& app, Options& o) {
  const char* group = "Machine";
  app.add_option_function<std::string>(
         "--device", [&o](const std::string& name) { o.device = devices.at(name); },
         "auto: the GPU placed for each rank, where it can train the model, else the CPU; a GPU computes in "
         "bf16")
      ->group(group)
      ->type_name("auto|cpu|cuda")
      ->check(one_of({"auto", "cpu", "cuda"}))
      ->default_function([&o] {
        const auto same = [&o](const auto& entry) { return entry.second == o.device; };
        return std::find_if(devices.begin(), devices.end(), same)->first;
      })
      ->capture_default_str();
  add_option(app, group, "--threads", o.threads,
             "Compute threads per rank; 0: OMP_NUM_THREADS, else this rank's fair share of its CPUs")
      ->check(integer(0, 4096));
  add_switch(app, group, "mfu", o.mfu,
             "Measure the peak FLOP/s at start, for 0.3 s, and report how much of it is used");
}

void require(bool fine, const std::string& text) {
  if (!fine) throw Error(ErrorCode::usage, text + " (see muster-train --help)");
}

/// "--steps 50 (run.toml:3)"; no source in parentheses for the command line.
template <typename Value>
std::string describe_setting(const Options& o, const std::string& name, const Value& value) {
  const auto origin = o.origins.find(name);
  const std::string from = origin == o.origins.end() ? "the default" : origin->second;
  return fmt::format("--{} {}{}", name, value, from == "command line" ? "" : " (" + from + ")");
}

/// True when the user set this option. A settings file does not count when it has the default value, because
/// --print-config writes all defaults.
bool is_set_by_user(const Options& o, const std::string& name, bool differs_from_default) {
  const auto origin = o.origins.find(name);
  if (origin == o.origins.end()) return false;
  return differs_from_default || origin->second == "command line" || origin->second == to_variable_name(name);
}

/// Sets o.model: the preset's sizes, overridden by single options.
void choose_model(Options& o) {
  const GptShape& shape = o.shape;
  const auto preset = models::gpt_preset(o.model_name);
  if (!preset) {
    require(shape == GptShape{},
            "--layers, --heads, --width, --context and --vocabulary are sizes of a GPT: " + o.model_name +
                " has none of them");
    const Options defaults;
    const std::string has_none =
        fmt::format(" has no effect with {}, whose files say what is held out: leave it out", o.model_name);
    require(o.validation_tokens == 0,
            describe_setting(o, "validation-tokens", o.validation_tokens) + has_none);
    require(!is_set_by_user(o, "validation-fraction", o.validation_fraction != defaults.validation_fraction),
            describe_setting(o, "validation-fraction", o.validation_fraction) + has_none);
    return;
  }
  o.model = {shape.layers.value_or(preset->layers), shape.heads.value_or(preset->heads),
             shape.width.value_or(preset->width), shape.context.value_or(preset->context),
             shape.vocabulary.value_or(preset->vocabulary)};
}

/// Peak learning rate for sizes of GPT-2: that of GPT-3's nearest size, which falls to a tenth (Brown et al.
/// 2020, table 2.1 and appendix B).
std::optional<double> gpt2_peak_rate(const std::string& model_name) {
  static const std::map<std::string, double> rates{
      {"gpt2-124M", 6e-4}, {"gpt2-350M", 3e-4}, {"gpt2-774M", 2.5e-4}, {"gpt2-1558M", 2e-4}};
  const auto found = rates.find(model_name);
  return found == rates.end() ? std::nullopt : std::optional(found->second);
}

void choose_learning_rate(Options& o) {
  const auto peak = gpt2_peak_rate(o.model_name);
  if (!peak) return;
  if (!o.origins.contains("learning-rate")) o.learning_rate = *peak;
  if (!o.origins.contains("min-learning-rate")) o.min_learning_rate = *peak / 10;
}

/// Refuses settings that the user set and that have no effect because of another setting.
void refuse_ineffective_settings(const Options& o) {
  const Options defaults;
  require(!is_set_by_user(o, "warmup", o.warmup != defaults.warmup) || o.warmup <= o.steps,
          fmt::format("{} is longer than {}: give fewer steps of warm-up, or more steps",
                      describe_setting(o, "warmup", o.warmup), describe_setting(o, "steps", o.steps)));
  require(o.deterministic || !is_set_by_user(o, "chunk", o.chunk != defaults.chunk),
          fmt::format("{} has a meaning with --deterministic only: leave it out, or add that",
                      describe_setting(o, "chunk", o.chunk)));
  require(o.device != Device::cuda || !is_set_by_user(o, "threads", o.threads != defaults.threads),
          fmt::format("{} has no effect with --device=cuda: leave it out",
                      describe_setting(o, "threads", o.threads)));
  if (o.validation_fraction > 0) return;
  const std::string none_held_out =
      fmt::format(" has no effect with {}, which holds nothing out: leave one of them out",
                  describe_setting(o, "validation-fraction", o.validation_fraction));
  require(o.eval_every == 0 || !is_set_by_user(o, "eval-every", o.eval_every != defaults.eval_every),
          describe_setting(o, "eval-every", o.eval_every) + none_held_out);
  require(o.validation_tokens == 0,
          describe_setting(o, "validation-tokens", o.validation_tokens) + none_held_out);
}

}  // namespace

const std::vector<std::string>& model_names() {
  static const std::vector<std::string> names{"small",     "gpt2-124M",  "gpt2-350M",
                                              "gpt2-774M", "gpt2-1558M", "mnist-cnn"};
  return names;
}

void declare_options(CLI::App& app, Options& options) {
  // A job script's options come before the user's options: the last one counts.
  app.option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  add_data_options(app, options);
  add_model_options(app, options);
  add_training_options(app, options);
  add_output_options(app, options);
  add_machine_options(app, options);
}

void finalize_options(Options& o) {
  choose_model(o);
  choose_learning_rate(o);
  require(o.model.width % o.model.heads == 0,
          fmt::format("--width {} cannot be divided into --heads {} of equal width", o.model.width,
                      o.model.heads));
  require(std::int64_t{o.batch} * o.model.context <= max_tokens,
          fmt::format("--batch {} of --context {} is more than {} tokens a step", o.batch, o.model.context,
                      max_tokens));
  require(o.min_learning_rate <= o.learning_rate,
          fmt::format("{} is above {}: give a lower one",
                      describe_setting(o, "min-learning-rate", o.min_learning_rate),
                      describe_setting(o, "learning-rate", o.learning_rate)));
  require(!o.output.empty(), "--output must name a folder");
  require(!o.resume.empty(), "--resume must be auto, off or a checkpoint's folder");
  refuse_ineffective_settings(o);
}

}  // namespace muster
