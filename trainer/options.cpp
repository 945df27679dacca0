// SPDX-License-Identifier: Apache-2.0
#include "options.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <cmath>
#include <limits>
#include <optional>
#include <vector>

#include "muster/error.hpp"
#include "muster/version.hpp"

namespace muster {
namespace {

constexpr std::int64_t most_steps = 1'000'000'000'000;
/// Rows of one rank's activations: far beyond a CPU's reach, and all index arithmetic stays within an int.
constexpr std::int64_t most_tokens = 1 << 22;

const std::map<std::string, Device> devices{
    {"auto", Device::automatic}, {"cpu", Device::cpu}, {"cuda", Device::cuda}};

void add_data_options(CLI::App& app, Options& o) {
  app.add_option(
         "--data", o.data,
         "Text, whose tokens are its bytes, or token shards (.bin) as llm.c writes them: a file, a folder, "
         "or a comma list of files and patterns; for mnist-cnn the folder of MNIST's four files")
      ->group("Data")
      ->capture_default_str();
  app.add_option(
         "--validation-fraction", o.validation_fraction,
         "Part of the data, at its end, that is held out; 0: none. Shards named _val_ are held out instead")
      ->group("Data")
      ->check(CLI::Range(0.0, 0.9))
      ->capture_default_str();
}

/// What single flags say of a GPT's size; the rest is the named size's.
struct ShapeFlags {
  std::optional<int> layers, heads, width, context, vocabulary;

  bool any() const { return layers || heads || width || context || vocabulary; }
  void apply(models::GptConfig& to) const {
    const auto take = [](const std::optional<int>& flag, int& value) { value = flag.value_or(value); };
    take(layers, to.layers);
    take(heads, to.heads);
    take(width, to.width);
    take(context, to.context);
    take(vocabulary, to.vocabulary);
  }
};

void add_model_options(CLI::App& app, Options& o, ShapeFlags& shape) {
  const char* group = "Model";
  app.add_option(
         "--model", o.model_name,
         "A GPT: small (4 layers, 4 heads, width 128, context 64, vocabulary 256) or a size of GPT-2's "
         "(context 1024, vocabulary 50257); or Horovod's example network for MNIST's files")
      ->group(group)
      ->type_name(fmt::format("{}", fmt::join(model_names(), "|")))
      ->check(CLI::IsMember(model_names()).description(""))
      ->capture_default_str();
  app.add_option("--layers", shape.layers, "Transformer layers, instead of the model's")
      ->group(group)
      ->check(CLI::Range(1, 1024));
  app.add_option("--heads", shape.heads, "Attention heads, instead of the model's; must divide the width")
      ->group(group)
      ->check(CLI::Range(1, 1024));
  app.add_option("--width", shape.width, "Width of the residual stream, instead of the model's")
      ->group(group)
      ->check(CLI::Range(1, 65536));
  app.add_option("--context", shape.context, "Tokens in a training sequence, instead of the model's")
      ->group(group)
      ->check(CLI::Range(1, 65536));
  app.add_option("--vocabulary", shape.vocabulary, "Every token is below it; a text's tokens are its bytes")
      ->group(group)
      ->check(CLI::Range(2, compute::most_tokens_in_vocabulary));
}

void add_training_options(CLI::App& app, Options& o) {
  const char* group = "Training";
  app.add_option("--batch", o.batch, "Samples (sequences, images) per step over all ranks together")
      ->group(group)
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  app.add_option("--steps", o.steps, "Updates in the whole run")
      ->group(group)
      ->check(CLI::Range(std::int64_t{1}, most_steps))
      ->capture_default_str();
  app.add_option("--learning-rate", o.learning_rate, "Peak learning rate")
      ->group(group)
      ->capture_default_str();
  app.add_option("--min-learning-rate", o.min_learning_rate, "Learning rate at the last step")
      ->group(group)
      ->capture_default_str();
  app.add_option("--warmup", o.warmup, "Steps of linear rise to the peak; a half cosine falls after them")
      ->group(group)
      ->check(CLI::Range(std::int64_t{0}, most_steps))
      ->capture_default_str();
  app.add_option("--weight-decay", o.adamw.weight_decay, "AdamW's decay of matrices and embeddings")
      ->group(group)
      ->capture_default_str();
  app.add_option("--beta1", o.adamw.beta1, "AdamW's decay of the first moment")
      ->group(group)
      ->capture_default_str();
  app.add_option("--beta2", o.adamw.beta2, "AdamW's decay of the second moment")
      ->group(group)
      ->capture_default_str();
  app.add_option("--clip", o.adamw.clip, "Largest global gradient norm; 0: no clipping")
      ->group(group)
      ->capture_default_str();
  app.add_flag("--deterministic", o.deterministic,
               "The same bits for any number of ranks: gradients are added in a fixed tree, chunk by chunk")
      ->group(group);
  app.add_option("--chunk", o.chunk, "Samples in a chunk with --deterministic; each is computed by itself")
      ->group(group)
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  app.add_option("--seed", o.seed, "Of initial weights and the order of samples")
      ->group(group)
      ->check(CLI::NonNegativeNumber.description(""))
      ->capture_default_str();
}

void add_run_options(CLI::App& app, Options& o, std::string& device) {
  app.add_option("--output", o.output,
                 "Folder for metrics.jsonl, checkpoint.safetensors and loss.svg; created")
      ->group("Output")
      ->capture_default_str();
  app.add_option("--resume", o.resume,
                 "auto: from the output folder's checkpoint when there is one; off; or a checkpoint file")
      ->group("Output")
      ->type_name("auto|off|FILE")
      ->capture_default_str();
  app.add_option("--eval-every", o.eval_every, "Steps between validations; 0: only at the end")
      ->group("Output")
      ->check(CLI::Range(std::int64_t{0}, most_steps))
      ->capture_default_str();
  app.add_option("--checkpoint-every", o.checkpoint_every, "Steps between checkpoints; 0: only at the end")
      ->group("Output")
      ->check(CLI::Range(std::int64_t{0}, most_steps))
      ->capture_default_str();
  app.add_option("--log-every", o.log_every, "Seconds between progress lines where output is no terminal")
      ->group("Output")
      ->type_name("SECONDS")
      ->check(CLI::Range(0.0, 86400.0))
      ->capture_default_str();
  app.add_option("--device", device,
                 "auto: the GPU placed for each rank, else the CPU; this version computes on the CPU only")
      ->group("Machine")
      ->type_name("auto|cpu|cuda")
      ->check(CLI::IsMember({"auto", "cpu", "cuda"}).description(""))
      ->capture_default_str();
  app.add_option("--threads", o.threads,
                 "Compute threads per rank; 0: OMP_NUM_THREADS, else this rank's fair share of its CPUs")
      ->group("Machine")
      ->check(CLI::Range(0, 4096))
      ->capture_default_str();
}

void require(bool fine, const std::string& text) {
  if (!fine) throw Error(Fault::usage, text + " (see muster-train --help)");
}

void check(const Options& o) {
  require(o.model.width % o.model.heads == 0,
          fmt::format("--width {} cannot be divided into --heads {} of equal width", o.model.width,
                      o.model.heads));
  require(std::int64_t{o.batch} * o.model.context <= most_tokens,
          fmt::format("--batch {} of --context {} is more than {} tokens a step", o.batch, o.model.context,
                      most_tokens));
  require(std::isfinite(o.learning_rate) && o.learning_rate > 0, "--learning-rate must be a number above 0");
  require(o.min_learning_rate >= 0 && o.min_learning_rate <= o.learning_rate,
          "--min-learning-rate must lie between 0 and --learning-rate");
  require(o.adamw.beta1 >= 0 && o.adamw.beta1 < 1 && o.adamw.beta2 >= 0 && o.adamw.beta2 < 1,
          "--beta1 and --beta2 must be at least 0 and below 1");
  require(std::isfinite(o.adamw.weight_decay) && o.adamw.weight_decay >= 0,
          "--weight-decay must be 0 or above");
  require(std::isfinite(o.adamw.clip) && o.adamw.clip >= 0, "--clip must be 0 or above");
  require(!o.output.empty(), "--output must name a folder");
  require(!o.resume.empty(), "--resume must be auto, off or a file");
  require(std::isfinite(o.validation_fraction), "--validation-fraction must be a number");
}

std::string first_line(std::string text) {
  text = text.substr(0, text.find('\n'));
  return text;
}

}  // namespace

const std::vector<std::string>& model_names() {
  static const std::vector<std::string> names{"small",     "gpt2-124M",  "gpt2-350M",
                                              "gpt2-774M", "gpt2-1558M", "mnist-cnn"};
  return names;
}

std::optional<Options> parse_options(int argc, const char* const* argv) {
  Options options;
  CLI::App app(
      "Trains a GPT on any text or on shards of tokens, or a small network on MNIST's files, data-parallel "
      "over the ranks\n"
      "of a job.\n"
      "Start it alone, with srun --mpi=pmix or with mpirun; every rank gets the same options.\n"
      "muster-train make-data writes data to train on: see muster-train make-data --help.",
      "muster-train");
  app.set_version_flag("--version", std::string("muster-train ") + version);
  // A job script's options come first and the user's after them: the last one counts.
  app.option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  add_data_options(app, options);
  ShapeFlags shape;
  add_model_options(app, options, shape);
  add_training_options(app, options);
  std::string device = "auto";
  add_run_options(app, options, device);
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& asked) {
    app.exit(asked);
    return std::nullopt;
  } catch (const CLI::ParseError& error) {
    throw Error(Fault::usage, first_line(error.what()) + " (see muster-train --help)");
  }
  options.device = devices.at(device);
  if (const auto preset = models::gpt_preset(options.model_name)) {
    options.model = *preset;
    shape.apply(options.model);
  } else {
    require(!shape.any(), "--layers, --heads, --width, --context and --vocabulary are sizes of a GPT: " +
                              options.model_name + " has none of them");
  }
  check(options);
  return options;
}

}  // namespace muster
