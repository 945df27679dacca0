// SPDX-License-Identifier: Apache-2.0
#include "config/options.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <utility>

#include "config/refusal.hpp"
#include "config/strategy_settings.hpp"
#include "models/named_network.hpp"
#include "text/plural.hpp"
#include "weights/weight_source.hpp"

namespace muster {
namespace {

/// Sets what only the Llama kind has.
void choose_llama(Options& o) {
  const GptShape& shape = o.shape;
  if (!o.model.llama) {
    require(!shape.kv_heads && !shape.mlp_width && !shape.rotary_theta && !shape.norm_epsilon &&
                !shape.tied_output,
            "--kv-heads, --mlp-width, --rotary-theta, --norm-epsilon and --tied-output have a meaning with "
            "--model=llama only: leave them out");
    return;
  }
  models::LlamaConfig& llama = *o.model.llama;
  llama.kv_heads = shape.kv_heads.value_or(o.model.heads);
  llama.mlp_width = shape.mlp_width.value_or(models::default_mlp_width(o.model.width));
  llama.rotary_theta = shape.rotary_theta.value_or(llama.rotary_theta);
  llama.norm_epsilon = shape.norm_epsilon.value_or(llama.norm_epsilon);
  llama.tied_output = shape.tied_output;
}

/// Sets o.model: the preset's sizes, overridden by single options.
void choose_model(Options& o) {
  const GptShape& shape = o.shape;
  if (!o.init_from.empty()) {
    GptShape others = shape;
    others.context.reset();
    require(others == GptShape{} && !o.origins.contains("model"),
            fmt::format("--init-from {} decides the model and its sizes: leave --model, --layers, --heads, "
                        "--width, --vocabulary and the options of --model=llama out",
                        o.init_from));
    o.model = weights::open_weights(o.init_from)->config();
    if (!shape.context) return;
    // Positions of the Llama kind have no parameters.
    require(o.model.llama ? *shape.context <= o.model.context : *shape.context == o.model.context,
            fmt::format("--init-from {} has a context of {}, which --context can {}", o.init_from,
                        o.model.context, o.model.llama ? "shorten and not extend" : "not change"));
    o.model.context = *shape.context;
    return;
  }
  if (const auto preset = models::gpt_preset(o.model_name)) {
    o.model = {shape.layers.value_or(preset->layers),         shape.heads.value_or(preset->heads),
               shape.width.value_or(preset->width),           shape.context.value_or(preset->context),
               shape.vocabulary.value_or(preset->vocabulary), preset->llama};
    choose_llama(o);
    return;
  }
  require(shape == GptShape{},
          "--layers, --heads, --width, --context, --vocabulary and the options of --model=llama are sizes of "
          "a GPT: " +
              o.model_name + " has none of them");
}

/// Refuses sizes that do not fit each other.
void check_sizes(const models::GptConfig& model) {
  require(
      model.width % model.heads == 0,
      fmt::format("--width {} cannot be divided into --heads {} of equal width", model.width, model.heads));
  if (!model.llama) return;
  require(model.heads % model.llama->kv_heads == 0,
          fmt::format("--heads {} cannot share --kv-heads {}", model.heads, model.llama->kv_heads));
  require(model.head_width() % 2 == 0,
          fmt::format("--width {} and --heads {} make heads of {}, and rotary positions need an even width",
                      model.width, model.heads, model.head_width()));
}

/// The peak learning rate when none is given. Of SGD that of He et al. 2015 (arXiv 1512.03385, section 4.2);
/// of trained weights that of transformers' TrainingArguments; of GPT-2's sizes that of GPT-3's nearest size
/// (Brown et al. 2020, table 2.1).
double default_learning_rate(const Options& o) {
  static const std::map<std::string, double> peaks{
      {"gpt2-124M", 6e-4}, {"gpt2-350M", 3e-4}, {"gpt2-774M", 2.5e-4}, {"gpt2-1558M", 2e-4}};
  if (o.optimizer_name == "sgd") return 0.1;
  if (!o.init_from.empty()) return 5e-5;
  const auto peak = peaks.find(o.model_name);
  return peak == peaks.end() ? Options{}.learning_rate : peak->second;
}

/// Where the schedule ends: at a tenth of the peak, as in GPT-3 (appendix B), but of the small models'
/// default. `peak_is_given`: by the user.
double default_min_learning_rate(const Options& o, bool peak_is_given) {
  if (o.optimizer_name == "sgd") return 0;
  if (peak_is_given) return o.learning_rate / 10;
  const double peak = default_learning_rate(o);
  return peak == Options{}.learning_rate ? Options{}.min_learning_rate : peak / 10;
}

void choose_learning_rate(Options& o) {
  const bool peak_is_given = o.origins.contains("learning-rate");
  if (!peak_is_given) o.learning_rate = default_learning_rate(o);
  if (!o.origins.contains("min-learning-rate"))
    o.min_learning_rate = default_min_learning_rate(o, peak_is_given);
}

/// SGD's defaults are those of He et al. 2015, who do not clip.
void choose_optimizer(Options& o) {
  if (o.optimizer_name != "sgd") return;
  o.optimizer.kind = OptimizerKind::sgd;
  if (!o.origins.contains("weight-decay")) o.optimizer.weight_decay = 1e-4;
  if (!o.origins.contains("clip")) o.optimizer.clip = 0;
}

/// The steps of "32000,48000".
/// @throws muster::Error(ErrorCode::usage) unless they are rising positive integers.
std::vector<std::int64_t> parse_milestones(const Options& o) {
  std::vector<std::int64_t> steps;
  const char* at = o.milestones.data();
  const char* const end = at + o.milestones.size();
  while (at != end) {
    std::int64_t step = 0;
    const auto read = std::from_chars(at, end, step);
    const bool last = read.ptr == end;
    require(read.ec == std::errc() && step > (steps.empty() ? 0 : steps.back()) &&
                (last || (*read.ptr == ',' && read.ptr + 1 != end)),
            describe_setting(o, "milestones", o.milestones) + ": give rising numbers of steps, with commas");
    steps.push_back(step);
    at = last ? end : read.ptr + 1;
  }
  return steps;
}

/// A run that ends before a milestone never has the learning rates behind it.
void check_milestones(const Options& o) {
  const std::vector<std::int64_t> milestones = parse_milestones(o);
  require(
      o.schedule != "step" || milestones.empty() || milestones.back() < o.steps,
      fmt::format("{} is not below {}: give earlier milestones, or more steps",
                  describe_setting(o, "milestones", o.milestones), describe_setting(o, "steps", o.steps)));
}

/// Whether the learning rate falls to --min-learning-rate.
bool falls(const Options& o) { return o.schedule != "step" && o.schedule != "constant"; }

/// Settings of another optimizer or schedule.
void refuse_other_kinds(const Options& o) {
  const Options unset;
  const auto problem = [&o](const char* name, const std::string& value) {
    return fmt::format(" has no effect with {}: leave it out", describe_setting(o, name, value));
  };
  const std::string optimizer = problem("optimizer", o.optimizer_name);
  const bool sgd = o.optimizer_name == "sgd";
  refuse_ineffective(o, "beta1", o.optimizer.beta1, unset.optimizer.beta1, !sgd, optimizer);
  refuse_ineffective(o, "beta2", o.optimizer.beta2, unset.optimizer.beta2, !sgd, optimizer);
  refuse_ineffective(o, "momentum", o.optimizer.momentum, unset.optimizer.momentum, sgd, optimizer);
  refuse_ineffective(o, "nesterov", o.optimizer.nesterov, false, sgd, optimizer);
  require(!o.optimizer.nesterov || o.optimizer.momentum > 0, "--nesterov needs a --momentum above 0");
  const std::string schedule = problem("schedule", o.schedule);
  const bool step = o.schedule == "step";
  refuse_ineffective(o, "milestones", o.milestones, unset.milestones, step, schedule);
  refuse_ineffective(o, "decay-factor", o.decay_factor, unset.decay_factor, step, schedule);
  refuse_ineffective(o, "decay-steps", o.decay_steps, unset.decay_steps, o.schedule == "wsd", schedule);
  // --print-config prints the peak, too, of which another default follows.
  refuse_ineffective(o, "min-learning-rate", o.min_learning_rate, default_min_learning_rate(o, true),
                     falls(o) || o.min_learning_rate == default_min_learning_rate(o, false), schedule);
  require(!step || !o.milestones.empty(),
          "--schedule step needs --milestones: the steps at which the learning rate falls");
  require(o.decay_steps <= o.steps,
          fmt::format("{} is longer than {}", describe_setting(o, "decay-steps", o.decay_steps),
                      describe_setting(o, "steps", o.steps)));
}

/// Validations and checkpoints come after an average of the parameters: their intervals are multiples of
/// --sync-every, and so are the defaults.
void choose_intervals(Options& o) {
  if (o.strategy != "local-sgd") return;
  for (const auto& [name, every] :
       {std::pair{"eval-every", &o.eval_every}, std::pair{"checkpoint-every", &o.checkpoint_every}}) {
    if (!o.origins.contains(name)) *every = (*every + o.sync_every - 1) / o.sync_every * o.sync_every;
    require(*every % o.sync_every == 0,
            fmt::format("{} is no multiple of {}, after which the ranks have the same parameters",
                        describe_setting(o, name, *every), describe_setting(o, "sync-every", o.sync_every)));
  }
}

/// Batch normalization needs more samples at once than a GPT: the batch of He et al., arXiv 1512.03385, and
/// its quarters as chunks.
void choose_batch(Options& o) {
  if (!models::has_batch_norm(o.model_name)) return;
  if (!o.origins.contains("batch")) o.batch = 128;
  if (o.deterministic && !o.origins.contains("chunk")) o.chunk = 32;
}

/// One stage on each rank would be 1f1b with more messages.
void choose_virtual_stages(Options& o) {
  if (o.pipeline_schedule != "interleaved-1f1b") return;
  if (!o.origins.contains("virtual-stages")) o.virtual_stages = 2;
  require(o.virtual_stages > 1,
          fmt::format("{} interleaves nothing with {}: give at least 2, or leave it out",
                      describe_setting(o, "virtual-stages", o.virtual_stages),
                      describe_setting(o, "pipeline-schedule", o.pipeline_schedule)));
}

/// Whether a GPU times algorithms with --autotune; see find_tuner().
bool has_products_to_tune(const Options& o) {
  return o.device != Device::cpu && !o.deterministic && models::gpt_preset(o.model_name) &&
         o.strategy != "pipeline" && o.strategy != "parameter-server";
}

void refuse_ineffective_settings(const Options& o) {
  const Options defaults;
  const auto check = [&o](const char* name, const auto& value, const auto& unset, bool has_effect,
                          const std::string& problem) {
    refuse_ineffective(o, name, value, unset, has_effect, problem);
  };
  check("warmup", o.warmup, defaults.warmup, o.warmup <= o.steps,
        fmt::format(" is longer than {}: give fewer steps of warm-up, or more steps",
                    describe_setting(o, "steps", o.steps)));
  check("chunk", o.chunk, defaults.chunk, o.deterministic,
        " has a meaning with --deterministic only: leave it out, or add that");
  check("micro-batch", o.micro_batch, defaults.micro_batch, !o.deterministic,
        " has no effect with --deterministic, which computes a --chunk at once: leave it out");
  check("autotune", o.autotune, defaults.autotune, has_products_to_tune(o),
        " has no effect: no algorithms are timed on CPUs, for networks on images, with --deterministic, and "
        "with --strategy=pipeline or parameter-server: leave it out");
  check("threads", o.threads, defaults.threads, o.device != Device::cuda || offloads_tensors(o),
        " has no effect with --device=cuda: leave it out");
  const bool on_images = models::has_batch_norm(o.model_name);
  check("width-multiplier", o.width_multiplier, defaults.width_multiplier, o.model_name == "mobilenet-v1",
        " has a meaning with --model=mobilenet-v1 only: leave it out");
  const std::string no_images = " has no effect with " + o.model_name + ": leave it out";
  check("image-size", o.image_size, defaults.image_size, on_images, no_images);
  check("augment", o.augment, defaults.augment, on_images, no_images);
  check("validation-data", o.validation_data, defaults.validation_data, on_images, no_images);
  check("label-column", o.label_column, defaults.label_column, on_images, no_images);
  check("on-bad-image", o.on_bad_image, defaults.on_bad_image, on_images, no_images);
  check("data-threads", o.data_threads, defaults.data_threads, on_images, no_images);
  check("sync-batch-norm", o.sync_batch_norm, false, on_images, no_images);
  check("sync-batch-norm", o.sync_batch_norm, false, o.micro_batch == 0,
        " contradicts --micro-batch, of which ranks may have different numbers: leave one of them out");
  check("sync-batch-norm", o.sync_batch_norm, false, !o.deterministic,
        " contradicts --deterministic, which normalizes each chunk by itself: leave one of them out");
  const bool files_decide = !models::gpt_preset(o.model_name);
  const std::string decided =
      fmt::format(" has no effect with {}, whose files say what is held out: leave it out", o.model_name);
  // Pictures have no such files; CIFAR's are found when they are opened.
  check("validation-fraction", o.validation_fraction, defaults.validation_fraction,
        !files_decide || on_images, decided);
  check("validation-tokens", o.validation_tokens, defaults.validation_tokens, !files_decide, decided);
  check("recompute", o.recompute, false, !files_decide,
        fmt::format(" has no effect with {}, which is no GPT: leave it out", o.model_name));
  check("validation-fraction", o.validation_fraction, defaults.validation_fraction, o.validation_data.empty(),
        " has no effect with --validation-data: leave one of them out");
  const bool holds_out = o.validation_fraction > 0 || !o.validation_data.empty();
  const std::string none_held_out =
      fmt::format(" has no effect with {}, which holds nothing out: leave one of them out",
                  describe_setting(o, "validation-fraction", o.validation_fraction));
  check("eval-every", o.eval_every, defaults.eval_every,
        holds_out || o.eval_every == 0 || !o.origins.contains("eval-every"), none_held_out);
  check("validation-tokens", o.validation_tokens, defaults.validation_tokens, holds_out, none_held_out);
}

}  // namespace

void finalize_options(Options& o) {
  choose_model(o);
  choose_learning_rate(o);
  choose_optimizer(o);
  choose_batch(o);
  choose_intervals(o);
  choose_virtual_stages(o);
  check_sizes(o.model);
  refuse_other_kinds(o);
  check_milestones(o);
  require(!falls(o) || o.min_learning_rate <= o.learning_rate,
          fmt::format("{} is above {}: give a lower one",
                      describe_setting(o, "min-learning-rate", o.min_learning_rate),
                      describe_setting(o, "learning-rate", o.learning_rate)));
  require(!o.output.empty(), "--output must name a folder");
  require(!o.resume.empty(), "--resume must be auto, off or a checkpoint's folder");
  refuse_ineffective_settings(o);
  check_strategy_settings(o);
}

Schedule learning_rate_schedule(const Options& o) {
  static const std::map<std::string, Schedule::Shape> shapes{{"cosine", Schedule::Shape::cosine},
                                                             {"linear", Schedule::Shape::linear},
                                                             {"constant", Schedule::Shape::constant},
                                                             {"step", Schedule::Shape::step},
                                                             {"wsd", Schedule::Shape::stable_decay}};
  return {o.learning_rate,
          o.min_learning_rate,
          o.warmup,
          o.steps,
          shapes.at(o.schedule),
          parse_milestones(o),
          o.decay_factor,
          o.decay_steps > 0 ? o.decay_steps : std::max<std::int64_t>(o.steps / 10, 1)};
}

namespace {

/// Says that the validations will compute more predictions than the training; empty: they will not.
std::string describe_long_validations(const Options& o, const RunSizes& sizes) {
  const std::int64_t validations = o.eval_every > 0 ? (o.steps - 1) / o.eval_every + 1 : 1;
  const double validated = static_cast<double>(validations) * static_cast<double>(sizes.held_out),
               trained =
                   static_cast<double>(o.steps) * o.batch * static_cast<double>(sizes.predictions_per_sample);
  if (validated <= trained) return "";
  const bool is_gpt = !models::is_image_network(o.model_name);
  return fmt::format("{} of {} {}s each have more of them than the training, {:.0f}: raise --eval-every{}",
                     plural(validations, "validation"), sizes.held_out, is_gpt ? "token" : "image", trained,
                     is_gpt ? " or set --validation-tokens" : "");
}

}  // namespace

std::vector<std::string> setting_warnings(const Options& o, const RunSizes& sizes) {
  const int ranks = sizes.ranks;
  std::vector<std::string> warnings;
  if (o.warmup > o.steps) {
    const Schedule schedule = learning_rate_schedule(o);
    warnings.push_back(
        fmt::format("--warmup {} is longer than --steps {}: the learning rate reaches only {:.3g}", o.warmup,
                    o.steps, schedule.at(o.steps - 1)));
  }
  if (o.shard_optimizer && ranks == 1) warnings.emplace_back("--shard-optimizer has no effect on 1 rank");
  if (o.strategy == "local-sgd" && ranks == 1 && o.outer_optimizer == "average")
    warnings.emplace_back("--strategy=local-sgd has no effect on 1 rank");
  if (o.strategy == "central-storage" && ranks == 1 && o.device != Device::cuda)
    warnings.emplace_back("--strategy=central-storage has no effect on 1 rank without a GPU");
  if (o.sync_batch_norm && ranks == 1) warnings.emplace_back("--sync-batch-norm has no effect on 1 rank");
  if (o.sync_batch_norm && ranks > 1 && o.strategy == "pipeline" && (o.stages == 0 || o.stages == ranks))
    warnings.emplace_back("--sync-batch-norm has no effect on 1 pipeline");
  const int chunks = (o.batch - 1) / o.chunk + 1;
  if (o.deterministic && chunks < ranks && o.strategy != "local-sgd") {
    warnings.push_back(
        fmt::format("--batch {} in chunks of --chunk {} is {}: {} of {} ranks have nothing to do", o.batch,
                    o.chunk, plural(chunks, "chunk"), ranks - chunks, ranks));
  }
  if (static_cast<std::uint64_t>(o.batch) > sizes.samples_per_epoch) {
    warnings.push_back(
        fmt::format("--batch {} is more than all {} to train on: some are in a batch several times", o.batch,
                    plural(static_cast<std::int64_t>(sizes.samples_per_epoch), "sample")));
  }
  if (std::string text = describe_long_validations(o, sizes); !text.empty())
    warnings.push_back(std::move(text));
  return warnings;
}

}  // namespace muster
