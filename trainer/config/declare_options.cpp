// SPDX-License-Identifier: Apache-2.0
#include "config/declare_options.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "config/elastic_range.hpp"
#include "config/option_validators.hpp"
#include "models/named_network.hpp"

namespace muster {
namespace {

constexpr std::int64_t max_staleness = 1'000'000;

constexpr std::int64_t max_steps = 1'000'000'000'000;

/// Adds an option. Help shows its default with all digits, which CLI11's capture_default_str() does not.
template <typename T>
CLI::Option* add_option(CLI::App& app, const char* name, T& value, const char* description) {
  return app.add_option(name, value, description)->default_str(fmt::format("{}", value));
}

/// A size that is not set has no default.
template <typename T>
CLI::Option* add_option(CLI::App& app, const char* name, std::optional<T>& value, const char* description) {
  return app.add_option(name, value, description)->default_str(value ? fmt::format("{}", *value) : "");
}

CLI::Option* add_option(CLI::App& app, const char* name, std::string& value, const char* description) {
  return app.add_option(name, value, description)->default_str(value)->check(not_an_option());
}

/// Adds a boolean setting: "--name" and "--no-name" on the command line, true or false elsewhere.
void add_switch(CLI::App& app, const std::string& name, bool& value, const char* description) {
  app.add_flag("--" + name + ",!--no-" + name, value, description)
      ->check(CLI::IsMember({"true", "false", "on", "off", "yes", "no", "1", "0"}).description(""))
      ->default_str(value ? "true" : "false");
}

CLI::Validator non_negative() {
  return number("at or above 0", [](double value) { return std::isfinite(value) && value >= 0; });
}

CLI::Validator below_one() {
  return number("at or above 0 and below 1", [](double value) { return value >= 0 && value < 1; });
}

void add_data_options(CLI::App& app, Options& o) {
  app.option_defaults()->group("Data");
  add_option(
      app, "--data", o.data,
      "Text, whose tokens are its bytes, or token shards (.bin) as llm.c writes them: a file, a "
      "folder, or a comma list of files and patterns; for mnist-cnn the folder of MNIST's four files, for "
      "other networks on images that of CIFAR-10's or CIFAR-100's binary files, or JPEG and PNG pictures: a "
      "folder with one for each class, a list of paths and labels, or tar shards of WebDataset");
  add_option(app, "--validation-data", o.validation_data,
             "Pictures to validate with, in one of the forms of --data; if not given, the folder's val, "
             "validation or test beside its train, else --validation-fraction of --data")
      ->type_name("PATH");
  add_option(app, "--label-column", o.label_column,
             "Column of the labels in a list of pictures with a line of names; if not given, label")
      ->type_name("NAME");
  add_option(app, "--on-bad-image", o.on_bad_image,
             "A picture that cannot be decoded ends the run, or is skipped: the epoch's next one takes its "
             "place, and the report lists it")
      ->check(CLI::IsMember({"stop", "skip"}));
  add_option(app, "--validation-fraction", o.validation_fraction,
             "Part of the data that is held out; 0: none. Of text and shards their end, of pictures a part "
             "of each class. Shards named _val_ are held out instead")
      ->check(number(0, 0.9));
  add_option(app, "--validation-tokens", o.validation_tokens,
             "Validate on at most this many held-out tokens, the first ones; 0: on all")
      ->check(integer(std::int64_t{0}, max_steps));
}

std::vector<std::string> model_names() {
  std::vector<std::string> names{"small", "llama", "gpt2-124M", "gpt2-350M", "gpt2-774M", "gpt2-1558M"};
  const auto& images = models::image_network_names();
  names.insert(names.end(), images.begin(), images.end());
  return names;
}

void add_llama_options(CLI::App& app, GptShape& shape) {
  add_option(app, "--kv-heads", shape.kv_heads,
             "Heads of keys and values of --model=llama; must divide --heads; if not given, as many as those")
      ->check(integer(1, 1024));
  add_option(
      app, "--mlp-width", shape.mlp_width,
      "Width of the MLP of --model=llama; if not given, 8/3 of --width, rounded up to a multiple of 64")
      ->check(integer(1, 262144));
  add_option(app, "--rotary-theta", shape.rotary_theta,
             "Base of the rotary positions of --model=llama; if not given, 10000")
      ->check(number("from 1 to 1e12", [](double theta) { return theta >= 1 && theta <= 1e12; }));
  add_option(app, "--norm-epsilon", shape.norm_epsilon,
             "Epsilon of the norms of --model=llama; if not given, 1e-5")
      ->check(number("above 0 and below 1", [](double epsilon) { return epsilon > 0 && epsilon < 1; }));
  add_switch(app, "tied-output", shape.tied_output,
             "Let the output layer of --model=llama be the token embedding");
}

void add_model_options(CLI::App& app, Options& o) {
  app.option_defaults()->group("Model");
  add_option(
      app, "--model", o.model_name,
      "A GPT: small (4 layers, 2 heads, width 128, context 64, vocabulary 256) or a size of GPT-2's "
      "(context 1024, vocabulary 50257); llama: the same sizes as small, of the Llama kind; Horovod's "
      "example network for MNIST's files; or a residual network or MobileNet for CIFAR's files and for "
      "pictures")
      ->check(CLI::IsMember(model_names()));
  add_option(
      app, "--init-from", o.init_from,
      "Start from trained weights instead of random ones, and take their sizes: a checkpoint, a "
      "Hugging Face folder of a GPT-2 or Llama, llm.c's .bin, or a .safetensors of muster-train export")
      ->type_name("PATH");
  add_option(app, "--layers", o.shape.layers, "Transformer layers, instead of the model's")
      ->check(integer(1, 1024));
  add_option(app, "--heads", o.shape.heads, "Attention heads, instead of the model's; must divide the width")
      ->check(integer(1, 1024));
  add_option(app, "--width", o.shape.width, "Width of the residual stream, instead of the model's")
      ->check(integer(1, 65536));
  add_option(
      app, "--context", o.shape.context,
      "Tokens in a training sequence, instead of the model's; with --init-from of a Llama at most its own")
      ->check(integer(1, 65536));
  add_option(app, "--vocabulary", o.shape.vocabulary,
             "Vocabulary size: every token is below it; a text's tokens are its bytes")
      ->check(integer(2, compute::most_tokens_in_vocabulary));
  add_llama_options(app, o.shape);
  add_option(app, "--width-multiplier", o.width_multiplier, "Multiplies the channels of mobilenet-v1")
      ->check(number("from 0.1 to 4", [](double width) { return width >= 0.1 && width <= 4; }));
  add_option(app, "--image-size", o.image_size,
             "Pixels in each direction that images are scaled to, for resnet and mobilenet; 0: those of the "
             "data, or "
             "224 of pictures")
      ->check(integer(0, 512));
  add_switch(app, "augment", o.augment,
             "Crop images to train on at random and mirror half of them: CIFAR's with 4 pixels around them, "
             "pictures "
             "to 8-100% of their area");
}

void add_training_options(CLI::App& app, Options& o) {
  app.option_defaults()->group("Training");
  add_option(app, "--batch", o.batch, "Samples (sequences, images) per step over all ranks together")
      ->check(integer(1, 1 << 20));
  add_option(app, "--steps", o.steps, "Updates in the whole run")->check(integer(std::int64_t{1}, max_steps));
  add_option(app, "--optimizer", o.optimizer_name, "adamw, or sgd: with momentum, as torch.optim.SGD")
      ->check(CLI::IsMember({"adamw", "sgd"}));
  add_option(app, "--learning-rate", o.learning_rate,
             "Peak learning rate; the default for GPT-2's sizes is lower, 6e-4 (124M) to 2e-4 (1558M), with "
             "--init-from 5e-5, and 0.1 for sgd")
      ->check(number("above 0", [](double rate) { return std::isfinite(rate) && rate > 0; }));
  add_option(app, "--min-learning-rate", o.min_learning_rate,
             "Learning rate at the last step; for GPT-2's sizes, with --init-from and with a "
             "--learning-rate a tenth of the peak, for sgd 0")
      ->check(non_negative());
  add_option(app, "--warmup", o.warmup, "Steps of linear rise to the peak, before the schedule")
      ->check(integer(std::int64_t{0}, max_steps));
  add_option(
      app, "--schedule", o.schedule,
      "Learning rate after the warm-up: cosine or linear, which fall to --min-learning-rate; constant; "
      "step, which falls at --milestones; wsd, which is stable and falls over the last --decay-steps")
      ->check(CLI::IsMember({"cosine", "linear", "constant", "step", "wsd"}));
  add_option(app, "--milestones", o.milestones,
             "With --schedule step: the steps at which the learning rate falls, such as 32000,48000")
      ->type_name("STEP,...");
  add_option(app, "--decay-factor", o.decay_factor,
             "With --schedule step: factor of the learning rate at each milestone")
      ->check(number("above 0", [](double factor) { return std::isfinite(factor) && factor > 0; }));
  add_option(app, "--decay-steps", o.decay_steps,
             "With --schedule wsd: steps of the fall at the end of the run; 0: a tenth of --steps")
      ->check(integer(std::int64_t{0}, max_steps));
  add_option(app, "--weight-decay", o.optimizer.weight_decay,
             "Decay of matrices and embeddings, not of norms and biases; the default for sgd is 1e-4")
      ->check(non_negative());
  add_option(app, "--momentum", o.optimizer.momentum, "SGD's momentum")->check(below_one());
  add_switch(app, "nesterov", o.optimizer.nesterov, "SGD with Nesterov's momentum");
  add_option(app, "--beta1", o.optimizer.beta1, "AdamW's decay of the first moment")->check(below_one());
  add_option(app, "--beta2", o.optimizer.beta2, "AdamW's decay of the second moment")->check(below_one());
  add_option(app, "--clip", o.optimizer.clip,
             "Largest global gradient norm; 0: no clipping, the default for sgd")
      ->check(non_negative());
  add_option(
      app, "--dtype", o.dtype,
      "Type that the model computes in; with bf16, parameters, gradients and the optimizer's moments stay in "
      "float32")
      ->check(CLI::IsMember({"fp32", "bf16"}));
  add_option(app, "--label-smoothing", o.label_smoothing,
             "Share of each target that is spread evenly over all classes; in training, not in validation")
      ->check(below_one());
  add_switch(app, "deterministic", o.deterministic,
             "The same bits for any number of ranks: gradients are added in a fixed tree, chunk by chunk");
  add_switch(app, "autotune", o.autotune,
             "On a GPU: time the algorithms of the model's matrix products at start and use the fastest; the "
             "checkpoint keeps them, so that a resumed run has the same bits. --no-autotune and "
             "--deterministic use the first algorithm that cuBLASLt proposes");
  add_option(app, "--chunk", o.chunk,
             "Samples in a chunk with --deterministic; each chunk is computed by itself")
      ->check(integer(1, 1 << 20));
  add_option(app, "--micro-batch", o.micro_batch,
             "Samples that a rank computes at once; it adds the gradients of its micro-batches up, with less "
             "memory for activations; 0: all its samples")
      ->check(integer(0, 1 << 20));
  add_switch(
      app, "shard-optimizer", o.shard_optimizer,
      "Each rank keeps the optimizer's state of its part of the parameters only (ZeRO-1): the same bits, "
      "less memory, 1.5 times as much communication");
  add_switch(app, "recompute", o.recompute,
             "Keep only the input of each layer of a GPT and compute the rest again in the backward pass "
             "(activation checkpointing): the same bits, less memory, about a third more time");
  add_switch(app, "sync-batch-norm", o.sync_batch_norm,
             "Normalize batches by the statistics of all ranks' samples together, not of each rank's own");
  add_option(app, "--stop-after-skipped", o.stop_after_skipped,
             "End the run after this many updates in a row were skipped because loss or gradients were not "
             "finite")
      ->check(integer(std::int64_t{1}, max_steps));
  add_option(app, "--seed", o.seed, "Seed of the initial weights and the order of samples")
      ->check(integer(std::uint64_t{0}, ~std::uint64_t{0}).description(""));
}

CLI::Validator elastic_range() {
  const auto validate = [](const std::string& text) {
    if (parse_elastic_range(text)) return std::string();
    return fmt::format(
        "'{}' must be MIN or MIN:MAX, integers from 1 to {} with MIN at or below MAX, or 0 for a run that a "
        "loss ends",
        text, 1 << 20);
  };
  return {validate, ""};
}

CLI::Validator staleness() {
  const auto validate = [](const std::string& text) {
    std::int64_t steps = 0;
    if (text == "unbounded" || (parse_number(text, steps) && steps >= 0 && steps <= max_staleness))
      return std::string();
    return fmt::format("'{}' must be an integer from 0 to {}, or unbounded", text, max_staleness);
  };
  return {validate, ""};
}

void add_parameter_server_options(CLI::App& app, Options& o) {
  add_option(app, "--servers", o.servers,
             "With parameter-server: this many ranks hold the parameters, the others are workers")
      ->check(integer(1, 1 << 20));
  add_option(app, "--staleness", o.staleness,
             "With parameter-server: by how many steps a worker may be ahead of the slowest; 0: synchronous; "
             "unbounded: asynchronous")
      ->check(staleness());
  add_option(app, "--wire-dtype", o.wire_dtype,
             "With parameter-server: type in which gradients and parameters are sent; with local-sgd and "
             "--outer-optimizer=nesterov: that of what the workers' parameters moved by")
      ->check(CLI::IsMember({"fp32", "bf16"}));
  add_switch(
      app, "prefetch", o.prefetch,
      "With --staleness above 0: a worker reads the parameters for its next task while it computes one");
}

void add_pipeline_options(CLI::App& app, Options& o) {
  add_option(app, "--stages", o.stages,
             "With pipeline: ranks of a pipeline, which divide the layers; 0: all ranks are one pipeline")
      ->check(integer(0, 1024));
  add_option(app, "--micro-batches", o.micro_batches,
             "With pipeline: parts of a pipeline's samples of a step, which go through the stages one after "
             "the other; 0: four for each rank, if there are enough samples; with --deterministic each is a "
             "--chunk")
      ->check(integer(0, 1 << 16));
  add_option(app, "--pipeline-schedule", o.pipeline_schedule,
             "With pipeline: the order of forward and backward passes, named as in PyTorch: gpipe, 1f1b, "
             "interleaved-1f1b, which has several stages on each rank, or zb-h1, which computes weight "
             "gradients while it would wait")
      ->check(CLI::IsMember({"gpipe", "1f1b", "interleaved-1f1b", "zb-h1"}));
  add_option(app, "--virtual-stages", o.virtual_stages,
             "With --pipeline-schedule=interleaved-1f1b: stages on each rank, at least 2; if not given, 2")
      ->check(integer(1, 1024));
  add_option(app, "--balance", o.balance,
             "With pipeline: what the stages get equal shares of, as far as whole layers can be; time is "
             "measured on "
             "each rank at the start")
      ->check(CLI::IsMember({"flops", "parameters", "memory", "time"}));
}

void add_strategy_options(CLI::App& app, Options& o) {
  app.option_defaults()->group("Training");
  add_option(
      app, "--strategy", o.strategy,
      "How the ranks divide the training: data-parallel reduces the gradients in each step; central-storage "
      "does so with one copy of parameters and optimizer state in each host's memory, also for GPUs; "
      "local-sgd lets each rank train by itself and averages the parameters from time to time; "
      "parameter-server has ranks that hold the parameters, to which workers push gradients; pipeline "
      "divides the layers over ranks. All of them work on CPUs and GPUs")
      ->check(
          CLI::IsMember({"data-parallel", "central-storage", "local-sgd", "parameter-server", "pipeline"}));
  add_option(app, "--sync-every", o.sync_every,
             "With local-sgd: steps between two averages of the parameters")
      ->check(integer(std::int64_t{1}, max_steps));
  add_option(app, "--worker-ranks", o.worker_ranks,
             "With local-sgd: so many consecutive ranks, such as those of a node, train together by data "
             "parallelism, and averages are taken between these groups")
      ->check(integer(1, 1 << 20));
  add_option(app, "--outer-optimizer", o.outer_optimizer,
             "With local-sgd: average takes the mean of the ranks' parameters; nesterov goes towards it with "
             "Nesterov's momentum (DiLoCo)")
      ->check(CLI::IsMember({"average", "nesterov"}));
  add_option(app, "--outer-learning-rate", o.outer_learning_rate, "Of --outer-optimizer=nesterov")
      ->check(number("above 0", [](double rate) { return std::isfinite(rate) && rate > 0; }));
  add_option(app, "--outer-momentum", o.outer_momentum, "Of --outer-optimizer=nesterov")->check(below_one());
  add_parameter_server_options(app, o);
  add_pipeline_options(app, o);
  add_option(app, "--elastic", o.elastic,
             "After the loss of ranks, go on with those that are left, from the state in their memory, if "
             "they are at least MIN; with fewer, save a checkpoint and end. At most MAX ranks train; further "
             "ones wait as spares and replace lost ranks. 0: a loss ends the run")
      ->type_name("MIN[:MAX]")
      ->check(elastic_range());
  add_switch(
      app, "join", o.join,
      "Join the run that is under way in --output, which has the same options and --elastic: become its "
      "last rank after its current step, to train or as a spare");
}

void add_output_options(CLI::App& app, Options& o) {
  app.option_defaults()->group("Output");
  add_option(app, "--output", o.output,
             "Folder for checkpoints, metrics, status, summary, plot and report; created");
  add_option(
      app, "--resume", o.resume,
      "auto: continue from the output folder's newest good checkpoint, if any; off: start anew; FOLDER: "
      "continue from this checkpoint (step-…)")
      ->type_name("auto|off|FOLDER");
  add_option(app, "--eval-every", o.eval_every, "Steps between validations; 0: only at the end")
      ->check(integer(std::int64_t{0}, max_steps));
  add_option(app, "--checkpoint-every", o.checkpoint_every, "Steps between checkpoints; 0: only at the end")
      ->check(integer(std::int64_t{0}, max_steps));
  add_option(app, "--keep", o.keep, "Number of good checkpoints to keep; older ones are removed")
      ->check(integer(std::int64_t{1}, max_steps));
  add_option(
      app, "--status", o.status,
      "File with one line that says whether the run is finished or should be started again; if not given, "
      "status.json in the output folder")
      ->type_name("FILE");
  add_option(app, "--log-every", o.log_every, "Seconds between progress lines when output is not a terminal")
      ->type_name("SECONDS")
      ->check(number(0, 86400));
  add_switch(app, "tensorboard", o.tensorboard, "Event files for TensorBoard, in the folder's tensorboard/");
}

void add_machine_options(CLI::App& app, Options& o) {
  app.option_defaults()->group("Machine");
  const auto same = [&o](const auto& device) { return device.second == o.device; };
  app.add_option_function<std::string>(
         "--device", [&o](const std::string& name) { o.device = devices().at(name); },
         "auto: the GPU placed for each rank, where it can train the model, else the CPU; a GPU computes in "
         "bf16")
      ->check(CLI::IsMember(devices()))
      ->default_str(std::find_if(devices().begin(), devices().end(), same)->first);
  add_option(app, "--threads", o.threads,
             "Compute threads per rank; 0: OMP_NUM_THREADS, else this rank's fair share of its CPUs")
      ->check(integer(0, 4096));
  add_option(app, "--data-threads", o.data_threads,
             "Threads per rank that decode pictures before a step needs them; 0: as many as this rank's CPUs "
             "without --threads, at least one. The compute threads decode what is not ready")
      ->check(integer(0, 1024));
  add_switch(app, "mfu", o.mfu,
             "Measure the peak FLOP/s at start, for 0.3 s, and report how much of it is used");
}

}  // namespace

void declare_options(CLI::App& app, Options& options) {
  // A job script's options come before the user's options: the last one counts.
  app.option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  add_data_options(app, options);
  add_model_options(app, options);
  add_training_options(app, options);
  add_strategy_options(app, options);
  add_output_options(app, options);
  add_machine_options(app, options);
}

}  // namespace muster
