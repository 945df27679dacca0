// SPDX-License-Identifier: Apache-2.0
#include "evaluate_command.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cmath>

#include "checkpoint/checkpoint.hpp"
#include "checkpoint/find_checkpoint.hpp"
#include "compute/cpu/cpu_compute.hpp"
#include "config/option_validators.hpp"
#include "config/parse_command.hpp"
#include "data/corpus.hpp"
#include "machine/threads.hpp"
#include "models/model_memory.hpp"
#include "models/named_network.hpp"
#include "report/format_bytes.hpp"
#include "run/open_gpu.hpp"
#include "training/collective_errors.hpp"
#include "training/validation.hpp"
#include "training/workload.hpp"
#include "weights/weight_source.hpp"

namespace muster {
namespace {

constexpr int default_tokens = 1024, default_tokens_on_gpu = 8192, images_at_once = 256,
              default_context = 8192, max_image_size = 1024;

/// This rank's part of the result.
struct Evaluation {
  Validation found;
  std::string model, unit, device;
};

/// Refuses options that do nothing for `model`.
void refuse_given(const EvaluateOptions& o, std::initializer_list<const char*> names, const char* model) {
  for (const char* name : names) {
    if (o.given.contains(name))
      throw Error(ErrorCode::usage, fmt::format("--{} has no effect with {}: leave it out", name, model));
  }
}

/// Refuses a batch that does not fit into the GPU.
void check_gpu_memory(const models::GptConfig& config, int batch, std::uint64_t free_bytes) {
  const std::uint64_t needed =
      total_bytes(models::gpt_memory(config, static_cast<std::uint64_t>(batch), sizeof(bfloat16), 0, true));
  if (needed <= free_bytes) return;
  throw Error(ErrorCode::usage, fmt::format("the model needs {} of memory with --batch {}, and {} is free on "
                                            "its GPU: pass a smaller --batch or --device=cpu",
                                            format_bytes(needed), batch, format_bytes(free_bytes)));
}

/// The model, which reads at most --context tokens at once. Positions of the Llama kind have no parameters.
models::GptConfig choose_context(const EvaluateOptions& o, models::GptConfig config) {
  if (o.context > config.context || (o.context > 0 && o.context < config.context && !config.llama)) {
    throw Error(ErrorCode::usage,
                fmt::format("--context {}: the model {} {} tokens at once: leave --context out", o.context,
                            config.llama ? "reads at most" : "has learned to read", config.context));
  }
  if (o.context > 0) config.context = o.context;
  if (o.context == 0 && config.llama) config.context = std::min(config.context, default_context);
  return config;
}

/// `free_bytes`: of the GPU; 0 on the CPU.
template <typename Real>
Evaluation evaluate_gpt(const EvaluateOptions& o, const Job& job, compute::Compute<Real>& compute,
                        std::uint64_t free_bytes) {
  refuse_given(o, {"image-size", "label-column", "on-bad-image"}, "a GPT");
  const auto source = weights::open_weights(o.from);
  const bool whole = o.validation_fraction == 1;
  const data::Corpus corpus =
      whole ? data::Corpus::read_whole(o.data) : data::Corpus::read(o.data, o.validation_fraction);
  weights::check_tokenizer({o.data, corpus.has_shards() ? corpus.tokenizer_file() : byte_tokenizer}, *source,
                           o.from);
  const data::TokenSequence& tokens = whole ? corpus.training() : corpus.validation_sequence();
  if (tokens.size() < 2)
    throw Error(ErrorCode::usage, fmt::format("--data {}: it has one token, and two are needed", o.data));
  const models::GptConfig config = choose_context(o, source->config());
  const int together = job.on_gpu() ? default_tokens_on_gpu : default_tokens;
  const int batch = o.batch > 0 ? o.batch : std::max(1, together / config.context);
  if (job.on_gpu()) check_gpu_memory(config, batch, free_bytes);
  models::Gpt<Real> model(config, batch, compute, 0, true);  // no layer is kept
  model.tensors().read_parameters([&](std::span<float> parameters) { source->read(parameters); });
  model.tensors().round_parameters(compute);
  Evaluation evaluation{{}, models::gpt_text(config), corpus.has_shards() ? "token" : "byte", ""};
  evaluation.found.loss =
      validate_share(model, tokens, job.rank(), job.size(), static_cast<std::uint64_t>(batch));
  return evaluation;
}

/// The --image-size of the training. A checkpoint of an older version does not have it.
int trained_image_size(const TrainingState& state) {
  const auto setting = state.settings.find("image-size");
  int size = 0;
  if (setting != state.settings.end() && parse_number(setting->second, size) && size >= 0 &&
      size <= max_image_size)
    return size;
  return 0;
}

Options image_options(const EvaluateOptions& o, const TrainingState& state,
                      const models::NamedNetwork& network) {
  Options options;
  options.data = o.data;
  options.model_name = network.name;
  options.width_multiplier = network.width;
  options.image_size = o.image_size > 0 ? o.image_size : trained_image_size(state);
  for (const std::string& name : o.given) options.origins[name] = "command line";
  options.validation_fraction = o.validation_fraction;
  options.label_column = o.label_column;
  options.on_bad_image = o.on_bad_image;
  return options;
}

template <typename Real>
Evaluation evaluate_images(const EvaluateOptions& o, const Checkpoint& checkpoint, const Job& job,
                           compute::Compute<Real>& compute) {
  const std::string& text = checkpoint.state().model;
  const auto network = models::parse_network_text(text);
  if (!network)
    throw Error(ErrorCode::usage, fmt::format("{} holds a model that cannot be evaluated: {}", o.from, text));
  refuse_given(o, {"context"}, "a network on images");
  const auto workload = read_workload(image_options(o, checkpoint.state(), *network),
                                      choose_data_threads(0, compute.threads(), job.roster(), job.rank()));
  const auto of_data = models::parse_network_text(workload->model_text());
  if (!of_data || of_data->classes != network->classes) {
    throw Error(ErrorCode::usage, fmt::format("--data {} has {} classes, and the model of {} has {}", o.data,
                                              of_data ? of_data->classes : 0, o.from, network->classes));
  }
  const auto model = workload->build(compute, o.batch > 0 ? o.batch : images_at_once, 0);
  model->tensors().read_parameters([&](std::span<float> parameters) {
    checkpoint.read(workload->table(), {parameters, {}, {}});
  });
  model->tensors().round_parameters(compute);
  return {model->validate_share(job.rank(), job.size(), true), text, workload->unit(), ""};
}

/// The checkpoint of a network on images, or nothing.
std::optional<Checkpoint> open_image_checkpoint(const std::string& from) {
  if (const auto path = find_checkpoint(from)) {
    Checkpoint checkpoint(*path);
    if (!models::parse_gpt_text(checkpoint.state().model)) return checkpoint;
  }
  return std::nullopt;
}

template <typename Real>
Evaluation evaluate_share(const EvaluateOptions& o, const Job& job, compute::Compute<Real>& compute,
                          std::uint64_t free_bytes) {
  const auto checkpoint = open_image_checkpoint(o.from);
  Evaluation evaluation =
      checkpoint ? evaluate_images(o, *checkpoint, job, compute) : evaluate_gpt(o, job, compute, free_bytes);
  evaluation.device =
      fmt::format("{} in {}", compute.describe(), std::is_same_v<Real, bfloat16> ? "bf16" : "fp32");
  return evaluation;
}

template <typename Real>
Evaluation evaluate_on_cpu(const EvaluateOptions& o, const Job& job) {
  compute::cpu::CpuCompute<Real> compute(
      {choose_threads(o.threads, job.roster(), job.rank()), true, nullptr});
  return evaluate_share<Real>(o, job, compute, 0);
}

Evaluation evaluate_on(const EvaluateOptions& o, const Job& job, const compute::cuda::OpenedGpu& gpu) {
  if (gpu.compute) return evaluate_share<bfloat16>(o, job, *gpu.compute, gpu.free_bytes);
  return o.dtype == "bf16" ? evaluate_on_cpu<bfloat16>(o, job) : evaluate_on_cpu<float>(o, job);
}

std::string no_gpu_reason(const EvaluateOptions& o) {
  if (o.dtype == "fp32") return fp32_on_gpu;
  return open_image_checkpoint(o.from) ? describe_missing_kernels()
                                       : describe_missing_kernels(weights::open_weights(o.from)->config());
}

void print(const Evaluation& evaluation, double seconds) {
  const Average& loss = evaluation.found.loss;
  const Average& accuracy = evaluation.found.accuracy;
  const auto& unit = evaluation.unit;
  fmt::print("{}\non {}\n", evaluation.model, evaluation.device);
  fmt::print("loss {:.6f} nats/{} over {:.0f} {}s, perplexity {:.4f}, {:.6f} bits/{}\n", loss.value(), unit,
             loss.weight, unit, std::exp(loss.value()), loss.value() / std::log(2.0), unit);
  if (accuracy.weight > 0)
    fmt::print("accuracy {:.2f}% ({:.0f} of {:.0f} right)\n", 100 * accuracy.value(), accuracy.sum,
               accuracy.weight);
  fmt::print("{:.0f} {}s a second\n", loss.weight / seconds, unit);
}

void declare_data(CLI::App& app, EvaluateOptions& o) {
  app.add_option("--data", o.data,
                 "Text or token shards, as for training; for a model of images the folder of its files, of "
                 "which those for validation are taken")
      ->required()
      ->check(not_an_option());
  app.add_option("--validation-fraction", o.validation_fraction,
                 "Only this part of the data, which training with this option holds out; 1: all of the data")
      ->check(number(1e-9, 1))
      ->capture_default_str();
  app.add_option("--context", o.context,
                 "Tokens that a model of the Llama kind reads at once; 0: as many as it can, at most 8192")
      ->check(integer(0, 1 << 20))
      ->capture_default_str();
  app.add_option("--image-size", o.image_size,
                 "Pixels in each direction for a network on images; 0: as in its training")
      ->check(integer(0, max_image_size))
      ->capture_default_str();
  app.add_option("--label-column", o.label_column,
                 "Column of the labels in a list of pictures, as for training")
      ->check(not_an_option());
  app.add_option("--on-bad-image", o.on_bad_image,
                 "A picture that cannot be decoded ends the command or is skipped")
      ->check(CLI::IsMember({"stop", "skip"}))
      ->capture_default_str();
}

}  // namespace

std::optional<EvaluateOptions> parse_evaluate_options(int argc, const char* const* argv) {
  EvaluateOptions o;
  CLI::App app("Computes a trained model's loss over data, on one process or on all ranks of a job.",
               "muster-train evaluate");
  app.add_option(
         "CHECKPOINT", o.from,
         "A checkpoint (step-…), an output folder (its newest checkpoint), a Hugging Face folder of a "
         "GPT-2 or Llama, llm.c's .bin, or a .safetensors of muster-train export")
      ->required()
      ->check(not_an_option());
  declare_data(app, o);
  app.add_option(
         "--batch", o.batch,
         "Sequences or images at once on each rank; 0: about 1024 tokens (8192 on a GPU), or 256 images")
      ->check(integer(0, 1 << 16))
      ->capture_default_str();
  app.add_option_function<std::string>(
         "--device", [&o](const std::string& name) { o.device = devices().at(name); },
         "auto: the GPU placed for each rank, where it can compute the model, else the CPU; a GPU computes "
         "in "
         "bf16")
      ->check(CLI::IsMember(devices()))
      ->default_str("auto");
  app.add_option("--dtype", o.dtype, "Type to compute in; if not given, fp32, and bf16 on a GPU")
      ->check(CLI::IsMember({"fp32", "bf16"}));
  app.add_option("--threads", o.threads, "Compute threads per rank; 0: as for training")
      ->check(integer(0, 4096))
      ->capture_default_str();
  if (!parse_command(app, argc, argv)) return std::nullopt;
  for (const CLI::Option* option : app.get_options()) {
    if (option->count() > 0) o.given.insert(option->get_single_name());
  }
  if (o.device == Device::cuda) refuse_given(o, {"threads"}, "--device=cuda");
  if (o.validation_fraction > 0.9 && o.validation_fraction < 1)
    throw Error(ErrorCode::usage, "--validation-fraction must be at most 0.9, or 1 for all of the data");
  return o;
}

ChosenDevice choose_device(const EvaluateOptions& o) {
  if (o.device == Device::cpu) return {o.device, ""};
  std::string why;
  try {
    why = no_gpu_reason(o);
  } catch (const std::exception&) {
    return {Device::cpu, ""};
  }
  return choose_device(o.device, why);
}

void evaluate(const EvaluateOptions& o, Job& job) {
  Communicator world = job.host_world();
  CollectiveErrors errors(world);
  bool images = false;
  errors.run_on_all([&] { images = open_image_checkpoint(o.from).has_value(); });
  const compute::cuda::OpenedGpu gpu = open_gpu(images, job, errors);
  Evaluation evaluation;
  const auto from = std::chrono::steady_clock::now();
  errors.run_on_all([&] { evaluation = evaluate_on(o, job, gpu); });
  Average averages[] = {evaluation.found.loss, evaluation.found.accuracy};
  average_over_ranks(world, averages);
  evaluation.found = {averages[0], averages[1]};
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - from;
  if (job.rank() == 0) print(evaluation, took.count());
}

}  // namespace muster
