// SPDX-License-Identifier: Apache-2.0
// GPT-2 training on one GPU: bench_gpt2_gpu [MODEL [BATCH [STEPS [FOLDER]]]], by default gpt2-124M and 64
// sequences of 1024 tokens; BATCH "largest": the largest even batch that fits. Runs whole steps like the
// trainer's (gradients, norm, decision, AdamW; the next step is enqueued before the host waits) on random
// tokens that are frequent or rare, so that the loss falls. Prints tokens/s and MFU of the median step,
// against a peak measured before and after; then the parts of a step, each by itself, unless the batch is
// the largest.
//
// FOLDER: writes the initial weights, the tokens, the settings and the losses there, for gpt2_torch_gpu.py.
// MODEL "tiny" is for a fake GPU. Exit code 77 without a GPU. GPT2_GPU_AUTOTUNE=0: use cuBLASLt's first
// algorithms, not the fastest, as timed. GPT2_GPU_FUSE=0: do not use its epilogues.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "gpt2_gpu_parts.hpp"
#include "machine/measure_peak_flops.hpp"
#include "model_files.hpp"
#include "muster/error.hpp"
#include "muster/philox.hpp"
#include "optimizer/optimizer.hpp"

using namespace muster;
using compute::cuda::CudaCompute;
using models::GptConfig;

namespace {

constexpr int warm_up = 3;
constexpr double learning_rate = 3e-4;
const OptimizerSettings adamw_settings;

/// Token t is as frequent as t^-0.75.
std::vector<compute::Token> random_tokens(std::size_t count, int vocabulary) {
  std::vector<compute::Token> tokens(count);
  for (std::size_t i = 0; i < count; ++i) {
    const double uniform = static_cast<double>(uniform_bits(1, 1, i) >> 11) * 0x1p-53;
    tokens[i] = static_cast<compute::Token>(vocabulary * uniform * uniform * uniform * uniform);
  }
  return tokens;
}

/// A model with its optimizer, and steps like those of a single Replica.
class Training {
 public:
  Training(const GptConfig& config, int batch, CudaCompute& on)
      : on_(on),
        gpt_(config, batch, on, compute::reduced_scalar_count),
        adamw_(gpt_.tensors().table(), adamw_settings, on),
        batch_(batch) {}
  /// `steps`: that will be begun.
  void initialize(int steps) {
    gpt_.tensors().initialize(1);
    gpt_.tensors().round_parameters(on_);
    tokens_ = random_tokens(rows() * static_cast<std::size_t>(steps) + 1, gpt_.config().vocabulary);
  }
  std::size_t rows() const {
    return static_cast<std::size_t>(batch_) * static_cast<std::size_t>(gpt_.config().context);
  }
  void begin_step() {
    auto& tensors = gpt_.tensors();
    const auto parts = tensors.extra_and_gradients();
    const compute::Token* const tokens = tokens_.data() + rows() * static_cast<std::size_t>(step_);
    on_.begin_step(1, 1);
    gpt_.gradients(tokens, tokens + 1, batch_, gpt_.config().context, 1.0f / static_cast<float>(rows()),
                   [&](std::size_t tensor) {
                     on_.check_finite(parts[tensor + 1].data(), parts[tensor + 1].size(), 0, nullptr);
                   });
    on_.end_chunk(0, 1.0 / static_cast<double>(rows()), false, false, parts[0].data());
    const auto gradients = tensors.gradients();
    const std::size_t end = gradients.size();
    const auto norm = on_.decide(parts[0].data(), gradients.data(), std::span(&end, 1), adamw_settings.clip);
    adamw_.update(tensors.parameters(), gradients, norm.value_or(0), learning_rate, step_++,
                  tensors.rounded());
    on_.end_step();
  }
  /// Writes weights.safetensors and tokens.bin, 32 bits each.
  void write(const std::filesystem::path& folder) {
    const auto on_gpu = gpt_.tensors().parameters();
    std::vector<float> weights(on_gpu.size());
    on_.gpu().copy_out(weights.data(), on_gpu.data(), on_gpu.size_bytes());
    write_tensors(folder / "weights.safetensors", gpt_.tensors().table(), weights);
    write_tokens(folder / "tokens.bin", tokens_);
  }

 private:
  CudaCompute& on_;
  models::Gpt<bfloat16> gpt_;
  Optimizer<float> adamw_;
  int batch_;
  std::vector<compute::Token> tokens_;
  std::int64_t step_ = 0;
};

int find_largest_batch(const GptConfig& config, CudaCompute& on) {
  constexpr std::size_t spare = std::size_t{1} << 30;  // as the trainer leaves
  const auto fits = [&](int batch) {
    try {
      const Training training(config, batch, on);
      return on.gpu().free_bytes() > spare;
    } catch (const Error& error) {
      if (error.code() != ErrorCode::device) throw;
      return false;
    }
  };
  int pairs = 0;
  for (int step = 128; step > 0; step /= 2) {
    if (fits(2 * (pairs + step))) pairs += step;
  }
  if (pairs == 0) throw Error(ErrorCode::device, "not even a batch of 2 fits");
  return 2 * pairs;
}

struct Run {
  std::vector<double> losses;  ///< of each step, with those that warm up
  double median_seconds = 0;
  double gibibytes = 0;  ///< allocated
};

Run train(Training& training, int steps, CudaCompute& on) {
  Run run;
  std::vector<double> seconds;
  training.begin_step();
  auto ended = std::chrono::steady_clock::now();
  for (int i = -warm_up; i < steps; ++i) {
    if (i + 1 < steps) training.begin_step();
    run.losses.push_back(on.outcome().loss);
    const auto from = std::exchange(ended, std::chrono::steady_clock::now());
    if (i >= 0) seconds.push_back(std::chrono::duration<double>(ended - from).count());
  }
  std::nth_element(seconds.begin(), seconds.begin() + steps / 2, seconds.end());
  run.median_seconds = seconds[static_cast<std::size_t>(steps / 2)];
  run.gibibytes = static_cast<double>(on.gpu().allocated()) / 0x1p30;
  return run;
}

/// Writes run.json.
void write_run(const std::filesystem::path& folder, const GptConfig& c, int batch, const Run& run,
               double rate) {
  const nlohmann::json json{{"layers", c.layers},
                            {"heads", c.heads},
                            {"width", c.width},
                            {"context", c.context},
                            {"vocabulary", c.vocabulary},
                            {"batch", batch},
                            {"warm_up", warm_up},
                            {"learning_rate", learning_rate},
                            {"beta1", adamw_settings.beta1},
                            {"beta2", adamw_settings.beta2},
                            {"epsilon", adamw_settings.epsilon},
                            {"weight_decay", adamw_settings.weight_decay},
                            {"clip", adamw_settings.clip},
                            {"losses", run.losses},
                            {"tokens_per_second", rate}};
  std::ofstream(folder / "run.json") << json.dump(1) << '\n';
}

bool is_on(const char* variable) {
  const char* const value = std::getenv(variable);
  return value == nullptr || *value != '0';
}

void bench(const std::string& name, const std::string& batch_text, int steps, const std::string& folder) {
  const auto config = name == "tiny" ? GptConfig{1, 1, 64, 8, 256} : models::gpt_preset(name);
  if (!config)
    throw Error(ErrorCode::usage, name + " is no model: gpt2-124M, gpt2-350M, gpt2-774M or gpt2-1558M");
  CudaCompute on({.fuse = is_on("GPT2_GPU_FUSE")});
  on.autotuner()->set_timing(is_on("GPT2_GPU_AUTOTUNE"));
  const bool largest = batch_text == "largest";
  const int batch = largest ? find_largest_batch(*config, on) : std::atoi(batch_text.c_str());
  if (batch < 1 || steps < 1) throw Error(ErrorCode::usage, "batch and steps are at least 1");
  double peak = measure_peak_flops(on);
  Run run;
  {
    Training training(*config, batch, on);
    training.initialize(warm_up + steps);
    if (!folder.empty()) training.write(folder);
    run = train(training, steps, on);
  }
  const double rate = static_cast<double>(batch) * config->context / run.median_seconds;
  peak = std::max(peak, measure_peak_flops(on));
  std::printf(
      "%s on %s\n%d sequences of %d tokens, %d steps: %.2f ms, %.0f tokens/s, MFU %.1f%% of %.0f TFLOP/s "
      "measured, losses %.3f to %.3f, %.1f GiB\n",
      name.c_str(), on.describe().c_str(), batch, config->context, steps, 1e3 * run.median_seconds, rate,
      100 * rate * models::gpt_flops_per_token(*config) / peak, peak / 1e12, run.losses.front(),
      run.losses.back(), run.gibibytes);
  std::fflush(stdout);
  if (!folder.empty()) write_run(folder, *config, batch, run, rate);
  if (!largest) time_parts(*config, batch, on, run.median_seconds, {peak, measure_bandwidth(on)});
}

}  // namespace

int main(int argc, char** argv) {
  try {
    std::setvbuf(stdout, nullptr, _IOLBF, 0);  // a benchmark that is killed leaves what it has measured
    bench(argc > 1 ? argv[1] : "gpt2-124M", argc > 2 ? argv[2] : "64", argc > 3 ? std::atoi(argv[3]) : 20,
          argc > 4 ? argv[4] : "");
  } catch (const Error& error) {
    std::printf("%s\n", error.what());
    return error.code() == ErrorCode::device && argc < 2 ? 77 : error.exit_code();
  }
}
