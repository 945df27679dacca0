// SPDX-License-Identifier: Apache-2.0
#include "generation/generate_command.hpp"

#include <fmt/format.h>
#include <omp.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <type_traits>

#include "compute/cpu/cpu_compute.hpp"
#include "compute/cuda/open_device.hpp"
#include "compute/token.hpp"
#include "config/option_validators.hpp"
#include "config/parse_command.hpp"
#include "file/regular_file.hpp"
#include "generation/sampler.hpp"
#include "generation/text_output.hpp"
#include "models/gpt_decoder.hpp"
#include "models/model_memory.hpp"
#include "muster/error.hpp"
#include "report/format_bytes.hpp"
#include "report/terminal.hpp"
#include "run/choose_device.hpp"
#include "text/plural.hpp"
#include "tokenizer/tokenizer.hpp"
#include "weights/weight_source.hpp"

namespace muster {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t max_prompt_bytes = 16 << 20;

struct GenerateOptions {
  std::string from, prompt, tokenizer;
  Device device = Device::automatic;
  std::string dtype;  ///< empty: fp32, and bf16 on a GPU
  bool has_prompt = false, echo = true;
  std::int64_t tokens = 256;
  SamplingOptions sampling;
  int threads = 0;
};

double seconds_since(Clock::time_point from) {
  return std::chrono::duration<double>(Clock::now() - from).count();
}

std::string read_standard_input() {
  if (::isatty(STDIN_FILENO) == 1) fmt::print(stderr, "note: reading the prompt; Ctrl-D ends it\n");
  std::string text;
  char part[1 << 16];
  for (;;) {
    const ssize_t count = ::read(STDIN_FILENO, part, sizeof part);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0)
      throw Error(ErrorCode::system, fmt::format("cannot read standard input: {}", std::strerror(errno)));
    if (count == 0) return text;
    text.append(part, static_cast<std::size_t>(count));
    if (text.size() > max_prompt_bytes)
      throw Error(ErrorCode::usage, "the prompt on standard input is longer than 16 MiB");
  }
}

/// The tokenizer of the weights, or of --tokenizer when they do not have one.
std::unique_ptr<tokenizer::Tokenizer> open_tokenizer(const GenerateOptions& o,
                                                     const weights::WeightSource& source) {
  if (!source.tokenizer().empty()) {
    if (!o.tokenizer.empty())
      throw Error(ErrorCode::usage, fmt::format("{} has a tokenizer: leave --tokenizer out", o.from));
    return tokenizer::make_tokenizer(source.tokenizer(), o.from);
  }
  if (o.tokenizer.empty()) {
    throw Error(ErrorCode::usage,
                fmt::format("{} does not say how text becomes its tokens: pass --tokenizer=bytes or the "
                            "tokenizer.json with which its shards were made",
                            o.from));
  }
  if (o.tokenizer == "bytes") return tokenizer::make_tokenizer(o.tokenizer, o.tokenizer);
  const auto file = read_regular_file(o.tokenizer, compute::max_tokenizer_bytes);
  if (!file) {
    throw Error(ErrorCode::usage,
                fmt::format("--tokenizer {} cannot be read, or is longer than 256 MiB", o.tokenizer));
  }
  return tokenizer::make_tokenizer(file->text, o.tokenizer);
}

std::vector<compute::Token> encode_prompt(const std::string& prompt, const tokenizer::Tokenizer& tokens,
                                          int vocabulary) {
  if (prompt.empty())
    throw Error(ErrorCode::usage, "the prompt is empty: give the text that is to be continued");
  std::vector<compute::Token> encoded;
  for (const tokenizer::TokenId token : tokens.encode(prompt)) {
    if (token >= static_cast<tokenizer::TokenId>(vocabulary)) {
      throw Error(ErrorCode::usage,
                  fmt::format("the prompt has token {}, and the model knows {} tokens: it was "
                              "trained with another tokenizer",
                              token, vocabulary));
    }
    encoded.push_back(static_cast<compute::Token>(token));
  }
  return encoded;
}

struct Speed {
  std::size_t prompt_tokens = 0;
  std::int64_t generated = 0;
  double prompt_seconds = 0, seconds = 0;
};

/// The last tokens that the model reads: all that fit, with room for one more. When the context is full, half
/// of it, so that it is not read again for every token.
template <typename Real>
std::span<const Real> read_again(models::GptDecoder<Real>& decoder, std::span<const compute::Token> all,
                                 int most) {
  decoder.reset();
  return decoder.read(
      all.last(std::min<std::size_t>(all.size(), static_cast<std::size_t>(std::max(most, 1)))));
}

/// Calls `emit` with each generated token.
template <typename Real, typename Emit>
Speed generate(models::GptDecoder<Real>& decoder, std::vector<compute::Token> all, const GenerateOptions& o,
               const tokenizer::Tokenizer& tokens, const Emit& emit) {
  const int context = decoder.config().context;
  Speed speed{all.size()};
  auto from = Clock::now();
  auto logits = read_again<Real>(decoder, all, context);
  speed.prompt_seconds = seconds_since(from);
  from = Clock::now();
  const std::size_t known = std::min<std::size_t>(logits.size(), tokens.size());
  std::vector<float> candidates(known);
  while (speed.generated < o.tokens) {
    std::transform(logits.begin(), logits.begin() + static_cast<std::ptrdiff_t>(known), candidates.begin(),
                   [](Real logit) { return static_cast<float>(logit); });
    const compute::Token token = sample(candidates, o.sampling, static_cast<std::uint64_t>(speed.generated));
    if (tokens.ends_text(token)) break;
    emit(token);
    all.push_back(token);
    if (++speed.generated == o.tokens) break;
    logits = decoder.length() < context ? decoder.read({&all.back(), 1})
                                        : read_again<Real>(decoder, all, context / 2);
  }
  speed.seconds = seconds_since(from);
  return speed;
}

void print_speed(const Speed& speed, const std::string& device) {
  const auto rate = [](auto count, double seconds) {
    return seconds > 0 ? static_cast<double>(count) / seconds : 0.0;
  };
  std::fflush(stdout);
  fmt::print(stderr,
             "read {} in {:.3f} s ({:.0f} tokens/s), generated {} in {:.3f} s ({:.1f} tokens/s) on {}\n",
             plural(static_cast<std::int64_t>(speed.prompt_tokens), "token"), speed.prompt_seconds,
             rate(speed.prompt_tokens, speed.prompt_seconds), plural(speed.generated, "token"), speed.seconds,
             rate(speed.generated, speed.seconds), device);
}

/// The model, with room for the keys and values of this text.
models::GptConfig choose_context(const GenerateOptions& o, models::GptConfig config,
                                 const std::vector<compute::Token>& encoded) {
  const int context = config.context;
  if (encoded.size() > static_cast<std::size_t>(context)) {
    fmt::print(stderr, "note: the prompt has {} tokens, and the model reads the last {} of them\n",
               encoded.size(), context);
  }
  // Positions of the Llama kind have no parameters, so keys and values need no more room than this text.
  if (config.llama) {
    config.context = static_cast<int>(std::min<std::int64_t>(
        context, std::max<std::int64_t>(static_cast<std::int64_t>(encoded.size()) + o.tokens, 1)));
  }
  return config;
}

/// Refuses a model that does not fit into the GPU.
void check_gpu_memory(const models::GptConfig& config, std::uint64_t free_bytes) {
  const std::uint64_t needed = total_bytes(models::decoder_memory(config, sizeof(bfloat16)));
  if (needed <= free_bytes) return;
  throw Error(ErrorCode::usage, fmt::format("the model and its keys and values need {} of memory, and {} is "
                                            "free on its GPU: pass --device=cpu",
                                            format_bytes(needed), format_bytes(free_bytes)));
}

/// The model's weights and tokenizer.
struct Input {
  const weights::WeightSource& source;
  const tokenizer::Tokenizer& tokens;
};

/// `free_bytes`: of the GPU; nothing on the CPU.
template <typename Real>
void run(const GenerateOptions& o, const Input& input, compute::Compute<Real>& compute,
         std::optional<std::uint64_t> free_bytes) {
  const weights::WeightSource& source = input.source;
  const tokenizer::Tokenizer& tokens = input.tokens;
  const std::string prompt = o.has_prompt ? o.prompt : read_standard_input();
  const auto encoded = encode_prompt(prompt, tokens, source.config().vocabulary);
  const models::GptConfig config = choose_context(o, source.config(), encoded);
  if (free_bytes) check_gpu_memory(config, *free_bytes);
  models::GptDecoder<Real> decoder(config, compute,
                                   [&](std::span<float> parameters) { source.read(parameters); });
  TextOutput output(output_is_terminal());
  if (o.echo) output.write(prompt);
  Speed speed;
  try {
    speed = generate<Real>(decoder, encoded, o, tokens,
                           [&](compute::Token token) { output.write(tokens.decode(token)); });
  } catch (const std::runtime_error& error) {
    if (dynamic_cast<const Error*>(&error) != nullptr) throw;
    throw Error(ErrorCode::usage, fmt::format("{} cannot be used: {}", o.from, error.what()));
  }
  output.finish();
  print_speed(speed,
              fmt::format("{} in {}", compute.describe(), std::is_same_v<Real, bfloat16> ? "bf16" : "fp32"));
}

// Without oneDNN, whose sums depend on the number of threads: the same seed gives the same text on any
// number.
template <typename Real>
void run_on_cpu(const GenerateOptions& o, const Input& input) {
  compute::cpu::CpuCompute<Real> compute({o.threads > 0 ? o.threads : omp_get_max_threads(), false, nullptr});
  run<Real>(o, input, compute, std::nullopt);
}

/// Whether a GPU generates. With --device=auto, a note says why a placed one does not.
bool use_gpu(const GenerateOptions& o, const weights::WeightSource& source) {
  const char* const placed = std::getenv("MUSTER_GPUS");
  const bool wanted =
      o.device == Device::cuda || (o.device == Device::automatic && placed != nullptr && *placed != '\0');
  if (!wanted) return false;
  const ChosenDevice chosen =
      choose_device(o.device, o.dtype == "fp32" ? fp32_on_gpu : describe_missing_kernels(source.config()));
  if (!chosen.no_gpu_reason.empty())
    fmt::print(stderr, "note: computing on the CPU: {}\n", chosen.no_gpu_reason);
  return chosen.device != Device::cpu;
}

void run_on_gpu(const GenerateOptions& o, const Input& input) {
  Job job = Job::join({.device = o.device});
  {
    const compute::cuda::OpenedGpu gpu = compute::cuda::open_gpu(false);
    run<bfloat16>(o, input, *gpu.compute, gpu.free_bytes);
  }
  job.leave();
}

void declare(CLI::App& app, GenerateOptions& o) {
  app.add_option(
         "CHECKPOINT", o.from,
         "A checkpoint (step-…), an output folder (its newest checkpoint), a Hugging Face folder of a "
         "GPT-2 or Llama, llm.c's .bin, or a .safetensors of muster-train export")
      ->required()
      ->check(not_an_option());
  app.add_option("--prompt", o.prompt, "Text to continue; if not given, it is read from standard input");
  app.add_option("--tokens", o.tokens,
                 "Tokens to generate at most; a token that ends the text ends it earlier")
      ->check(integer(std::int64_t{0}, std::int64_t{1} << 32))
      ->capture_default_str();
  app.add_option("--temperature", o.sampling.temperature,
                 "Divides the logits: below 1 likely tokens become likelier; 0: always the likeliest")
      ->check(number(0, 1000))
      ->capture_default_str();
  app.add_option("--top-k", o.sampling.top_k, "Draw from the k likeliest tokens only; 0: from all")
      ->check(integer(0, compute::most_tokens_in_vocabulary))
      ->capture_default_str();
  app.add_option("--top-p", o.sampling.top_p,
                 "Draw from the likeliest tokens only that together have this probability")
      ->check(number("above 0 and at most 1", [](double p) { return p > 0 && p <= 1; }))
      ->capture_default_str();
  app.add_option("--seed", o.sampling.seed, "Seed; another one draws another text")
      ->check(integer(std::uint64_t{0}, ~std::uint64_t{0}).description(""))
      ->capture_default_str();
  app.add_flag("--echo,!--no-echo", o.echo, "Print the prompt before its continuation (the default)");
  app.add_option("--tokenizer", o.tokenizer,
                 "bytes, or a tokenizer.json, for weights that do not have their tokenizer")
      ->check(not_an_option());
  app.add_option_function<std::string>(
         "--device", [&o](const std::string& name) { o.device = devices().at(name); },
         "auto: the GPU placed for this process, where it can compute the model, else the CPU; a GPU "
         "computes "
         "in bf16")
      ->check(CLI::IsMember(devices()))
      ->default_str("auto");
  app.add_option("--dtype", o.dtype,
                 "Type to compute in; if not given, fp32, and bf16 on a GPU. bf16 needs half of the memory")
      ->check(CLI::IsMember({"fp32", "bf16"}));
  app.add_option("--threads", o.threads,
                 "Compute threads; 0: OMP_NUM_THREADS, else all CPUs. Any number gives "
                 "the same text")
      ->check(integer(0, 4096))
      ->capture_default_str();
}

/// Refuses options that do nothing beside others.
void refuse_ineffective_options(const CLI::App& app, const GenerateOptions& o) {
  const auto refuse = [&app](const char* name, const char* why) {
    if (app.get_option(name)->count() > 0)
      throw Error(ErrorCode::usage, fmt::format("{} has no effect with {}: leave it out", name, why));
  };
  if (o.sampling.temperature == 0) {
    for (const char* name : {"--top-k", "--top-p", "--seed"})
      refuse(name, "--temperature 0, which takes the likeliest token");
  }
  if (o.device == Device::cuda) refuse("--threads", "--device=cuda");
}

}  // namespace

int generate_command(int argc, const char* const* argv) {
  GenerateOptions o;
  CLI::App app("Continues a text with a trained GPT, on the CPU or a GPU.", "muster-train generate");
  declare(app, o);
  if (!parse_command(app, argc, argv)) return 0;
  refuse_ineffective_options(app, o);
  o.has_prompt = app.get_option("--prompt")->count() > 0;
  const auto source = weights::open_weights(o.from);
  const auto tokens = open_tokenizer(o, *source);
  const Input input{*source, *tokens};
  if (use_gpu(o, *source))
    run_on_gpu(o, input);
  else
    o.dtype == "bf16" ? run_on_cpu<bfloat16>(o, input) : run_on_cpu<float>(o, input);
  return 0;
}

}  // namespace muster
