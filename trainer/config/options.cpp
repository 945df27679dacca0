// SPDX-License-Identifier: Apache-2.0
#include "config/options.hpp"

#include <fmt/format.h>

#include "models/named_network.hpp"
#include "muster/error.hpp"
#include "optimizer/schedule.hpp"
#include "text/plural.hpp"

namespace muster {
namespace {

/// Upper bound of one rank's activation rows: far more than a CPU can train on, and index arithmetic stays
/// within an int.
constexpr std::int64_t max_tokens = 1 << 22;

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

/// Sets o.model: the preset's sizes, overridden by single options.
void choose_model(Options& o) {
  const GptShape& shape = o.shape;
  if (const auto preset = models::gpt_preset(o.model_name)) {
    o.model = {shape.layers.value_or(preset->layers), shape.heads.value_or(preset->heads),
               shape.width.value_or(preset->width), shape.context.value_or(preset->context),
               shape.vocabulary.value_or(preset->vocabulary)};
    return;
  }
  require(shape == GptShape{}, "--layers, --heads, --width, --context and --vocabulary are sizes of a GPT: " +
                                   o.model_name + " has none of them");
}

/// Peak learning rate for sizes of GPT-2: that of GPT-3's nearest size, which falls to a tenth (Brown et al.
/// 2020, table 2.1 and appendix B).
void choose_learning_rate(Options& o) {
  static const std::map<std::string, double> peaks{
      {"gpt2-124M", 6e-4}, {"gpt2-350M", 3e-4}, {"gpt2-774M", 2.5e-4}, {"gpt2-1558M", 2e-4}};
  const auto peak = peaks.find(o.model_name);
  if (peak == peaks.end()) return;
  if (!o.origins.contains("learning-rate")) o.learning_rate = peak->second;
  if (!o.origins.contains("min-learning-rate")) o.min_learning_rate = peak->second / 10;
}

/// Batch normalization needs more samples at once than a GPT: the batch of He et al., arXiv 1512.03385, and
/// its quarters as chunks.
void choose_batch(Options& o) {
  if (!models::has_batch_norm(o.model_name)) return;
  if (!o.origins.contains("batch")) o.batch = 128;
  if (o.deterministic && !o.origins.contains("chunk")) o.chunk = 32;
}

/// Refuses settings with other values than the default that have no effect because of another setting.
void refuse_ineffective_settings(const Options& o) {
  const Options defaults;
  const auto check = [&o](const char* name, const auto& value, const auto& unset, bool has_effect,
                          const std::string& problem) {
    require(has_effect || value == unset, describe_setting(o, name, value) + problem);
  };
  check("warmup", o.warmup, defaults.warmup, o.warmup <= o.steps,
        fmt::format(" is longer than {}: give fewer steps of warm-up, or more steps",
                    describe_setting(o, "steps", o.steps)));
  check("chunk", o.chunk, defaults.chunk, o.deterministic,
        " has a meaning with --deterministic only: leave it out, or add that");
  check("threads", o.threads, defaults.threads, o.device != Device::cuda,
        " has no effect with --device=cuda: leave it out");
  const bool on_images = models::has_batch_norm(o.model_name);
  check("width-multiplier", o.width_multiplier, defaults.width_multiplier, o.model_name == "mobilenet-v1",
        " has a meaning with --model=mobilenet-v1 only: leave it out");
  const std::string no_images = " has no effect with " + o.model_name + ": leave it out";
  check("image-size", o.image_size, defaults.image_size, on_images, no_images);
  check("augment", o.augment, defaults.augment, on_images, no_images);
  check("sync-batch-norm", o.sync_batch_norm, false, on_images, no_images);
  check("sync-batch-norm", o.sync_batch_norm, false, !o.deterministic,
        " contradicts --deterministic, which normalizes each chunk by itself: leave one of them out");
  const bool files_decide = !models::gpt_preset(o.model_name);
  const std::string decided =
      fmt::format(" has no effect with {}, whose files say what is held out: leave it out", o.model_name);
  check("validation-fraction", o.validation_fraction, defaults.validation_fraction, !files_decide, decided);
  check("validation-tokens", o.validation_tokens, 0, !files_decide, decided);
  const bool holds_out = o.validation_fraction > 0;
  const std::string none_held_out =
      fmt::format(" has no effect with {}, which holds nothing out: leave one of them out",
                  describe_setting(o, "validation-fraction", o.validation_fraction));
  check("eval-every", o.eval_every, defaults.eval_every, holds_out || o.eval_every == 0, none_held_out);
  check("validation-tokens", o.validation_tokens, 0, holds_out, none_held_out);
}

}  // namespace

void finalize_options(Options& o) {
  choose_model(o);
  choose_learning_rate(o);
  choose_batch(o);
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

std::vector<std::string> setting_warnings(const Options& o, int ranks, std::uint64_t samples_per_epoch) {
  std::vector<std::string> warnings;
  if (o.warmup > o.steps) {
    const Schedule schedule{o.learning_rate, o.min_learning_rate, o.warmup, o.steps};
    warnings.push_back(
        fmt::format("--warmup {} is longer than --steps {}: the learning rate reaches only {:.3g}", o.warmup,
                    o.steps, schedule.at(o.steps - 1)));
  }
  if (o.shard_optimizer && ranks == 1) warnings.emplace_back("--shard-optimizer has no effect on 1 rank");
  if (o.sync_batch_norm && ranks == 1) warnings.emplace_back("--sync-batch-norm has no effect on 1 rank");
  const int chunks = (o.batch - 1) / o.chunk + 1;
  if (o.deterministic && chunks < ranks) {
    warnings.push_back(
        fmt::format("--batch {} in chunks of --chunk {} is {}: {} of {} ranks have nothing to do", o.batch,
                    o.chunk, plural(chunks, "chunk"), ranks - chunks, ranks));
  }
  if (static_cast<std::uint64_t>(o.batch) > samples_per_epoch) {
    warnings.push_back(
        fmt::format("--batch {} is more than all {} to train on: some are in a batch several times", o.batch,
                    plural(static_cast<std::int64_t>(samples_per_epoch), "sample")));
  }
  return warnings;
}

}  // namespace muster
