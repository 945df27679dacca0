// SPDX-License-Identifier: Apache-2.0
#include "training/token_workload.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "models/model_memory.hpp"
#include "text/plural.hpp"
#include "training/validation.hpp"

namespace muster {
namespace {

/// Copies samples [first, first + count) and their targets, each [count, context]. `window`: of context + 1.
void copy_windows(const data::Corpus& corpus, const data::SampleWindows& windows,
                  const models::GptConfig& config, std::uint64_t first, std::uint64_t count,
                  std::vector<compute::Token>& window, compute::Token* tokens, compute::Token* targets) {
  const auto context = static_cast<std::size_t>(config.context);
  for (std::uint64_t i = 0; i < count; ++i) {
    corpus.training().copy(windows.start(first + i), context + 1, config.vocabulary, window.data());
    std::copy_n(window.data(), context, tokens + i * context);
    std::copy_n(window.data() + 1, context, targets + i * context);
  }
}

template <typename Real>
class TokenModel final : public Model {
 public:
  TokenModel(const models::GptConfig& config, const data::Corpus& corpus, const data::SampleWindows& windows,
             compute::Compute<Real>& compute, std::uint64_t max_samples, std::size_t extra, bool recompute)
      : corpus_(corpus),
        windows_(windows),
        gpt_(config, static_cast<int>(max_samples), compute, extra, recompute),
        window_(static_cast<std::size_t>(config.context) + 1),
        tokens_(max_samples * static_cast<std::size_t>(config.context)),
        targets_(tokens_.size()) {}

  models::ModelTensors<float>& tensors() noexcept override { return gpt_.tensors(); }
  std::size_t bytes() const noexcept override {
    return gpt_.bytes() + (window_.size() + tokens_.size() + targets_.size()) * sizeof(compute::Token);
  }

  void load_samples(std::uint64_t first, std::uint64_t count) override {
    count_ = count;
    copy_windows(corpus_, windows_, gpt_.config(), first, count, window_, tokens_.data(), targets_.data());
  }

  void gradients(float gradient_scale, const Ready& ready) override {
    gpt_.gradients(tokens_.data(), targets_.data(), static_cast<int>(count_), gpt_.config().context,
                   gradient_scale, ready);
  }

  Validation validate_share(int rank, int ranks, bool fixed, const ShouldStop& should_stop) override {
    const auto group = static_cast<std::uint64_t>(fixed ? gpt_.max_batch() : 1);
    return {muster::validate_share(gpt_, corpus_.validation_sequence(), rank, ranks, group, should_stop), {}};
  }

 private:
  const data::Corpus& corpus_;
  const data::SampleWindows& windows_;
  models::Gpt<Real> gpt_;
  std::uint64_t count_ = 0;
  std::vector<compute::Token> window_, tokens_, targets_;  ///< the last two: [max_samples, context]
};

template <typename Real>
class TokenStage final : public StageModel {
 public:
  TokenStage(const models::GptConfig& config, const data::Corpus& corpus, const data::SampleWindows& windows,
             compute::Compute<Real>& compute, const StageSettings& settings, bool recompute)
      : corpus_(corpus),
        windows_(windows),
        reads_samples_(settings.layers.has_embeddings() || settings.layers.has_output(config)),
        gpt_(config, {settings.layers, settings.slots, settings.weight_slots},
             static_cast<int>(settings.max_samples), compute, settings.extra, recompute),
        window_(static_cast<std::size_t>(config.context) + 1),
        slots_(static_cast<std::size_t>(settings.slots)) {
    const std::size_t count = settings.max_samples * static_cast<std::size_t>(config.context);
    for (Slot& slot : slots_) slot.tokens.resize(count), slot.targets.resize(count);
  }

  models::ModelTensors<float>& tensors() noexcept override { return gpt_.tensors(); }
  std::size_t bytes() const noexcept override {
    return gpt_.bytes() +
           (window_.size() + slots_.size() * 2 * slots_.front().tokens.size()) * sizeof(compute::Token);
  }

  void load_samples(int number, std::uint64_t first, std::uint64_t count) override {
    Slot& slot = at(number);
    slot.batch = static_cast<int>(count);
    slot.length = gpt_.config().context;
    if (!reads_samples_) return;
    copy_windows(corpus_, windows_, gpt_.config(), first, count, window_, slot.tokens.data(),
                 slot.targets.data());
  }

  std::span<std::byte> input(int slot) override { return exchanged(slot, gpt_.input(slot)); }
  std::span<std::byte> output(int slot) override { return exchanged(slot, gpt_.output(slot)); }
  std::vector<std::span<std::byte>> input_gradient(int slot) override {
    return {exchanged(slot, gpt_.gradient(slot))};
  }
  std::vector<std::span<std::byte>> output_gradient(int slot) override { return input_gradient(slot); }
  void forward(int number, float /*gradient_scale*/) override {
    const Slot& slot = at(number);
    gpt_.forward(number, slot.tokens.data(), slot.batch, slot.length);
  }
  void backward(int number, float gradient_scale, const Model::Ready& ready) override {
    const Slot& slot = at(number);
    gpt_.backward(number, slot.tokens.data(), slot.targets.data(), slot.batch, slot.length, gradient_scale,
                  ready);
  }
  void backward_input(int number, int weight_slot, float gradient_scale, const Model::Ready& ready) override {
    const Slot& slot = at(number);
    gpt_.backward_input(number, weight_slot, slot.targets.data(), slot.batch, slot.length, gradient_scale,
                        ready);
  }
  void backward_weight(int number, int weight_slot, const Model::Ready& ready) override {
    const Slot& slot = at(number);
    gpt_.backward_weight(number, weight_slot, slot.tokens.data(), slot.batch, slot.length, ready);
  }

  void begin_validation(int rank, int ranks, bool fixed) override {
    const auto max_batch = static_cast<std::uint64_t>(gpt_.max_batch());
    held_out_.emplace(corpus_.validation_sequence().size(), static_cast<std::uint64_t>(gpt_.config().context),
                      max_batch, rank, ranks, fixed ? max_batch : 1);
  }
  bool next_held_out(int number) override {
    const auto next = held_out_->next();
    if (!next) return false;
    Slot& slot = at(number);
    slot.first = next->first;
    slot.batch = next->batch;
    slot.length = next->length;
    return true;
  }
  void load_held_out(int number) override {
    if (!reads_samples_) return;
    Slot& slot = at(number);
    const std::size_t count = slot.predictions();
    std::vector<compute::Token> part(count + 1);
    corpus_.validation_sequence().copy(slot.first, part.size(), gpt_.config().vocabulary, part.data());
    std::copy_n(part.data(), count, slot.tokens.data());
    std::copy_n(part.data() + 1, count, slot.targets.data());
  }
  Validation held_out_result(int number) override {
    const Slot& slot = at(number);
    const double loss = gpt_.output_loss(number, slot.targets.data(), slot.batch, slot.length);
    return {{round_for_exact_sum(loss), static_cast<double>(slot.predictions())}, {}};
  }

 private:
  struct Slot {
    std::vector<compute::Token> tokens, targets;  ///< [batch, length]
    std::uint64_t first = 0;                      ///< held-out token
    int batch = 0, length = 0;
    std::size_t predictions() const {
      return static_cast<std::size_t>(batch) * static_cast<std::size_t>(length);
    }
  };
  Slot& at(int slot) { return slots_[static_cast<std::size_t>(slot)]; }
  std::span<std::byte> exchanged(int slot, compute::Accurate<Real>* values) {
    const std::size_t count = at(slot).predictions() * static_cast<std::size_t>(gpt_.config().width);
    return std::as_writable_bytes(std::span(values, count));
  }

  const data::Corpus& corpus_;
  const data::SampleWindows& windows_;
  bool reads_samples_;
  models::Gpt<Real> gpt_;
  std::vector<compute::Token> window_;
  std::vector<Slot> slots_;
  std::optional<HeldOutBatches> held_out_;
};

}  // namespace

TokenWorkload::TokenWorkload(const models::GptConfig& config, data::Corpus corpus, std::uint64_t seed,
                             bool recompute)
    : config_(config),
      corpus_(std::move(corpus)),
      windows_(corpus_.training().size(), config.context, seed),
      recompute_(recompute) {
  if (!corpus_.is_small()) return;
  corpus_.training().check(config_.vocabulary);
  corpus_.validation_sequence().check(config_.vocabulary);
}

std::string TokenWorkload::model_line() const {
  if (config_.llama) {
    return fmt::format(
        "llama: {}, {} ({} of keys and values), width {}, MLP width {}, context {}, vocabulary {}",
        plural(config_.layers, "layer"), plural(config_.heads, "head"), config_.kv_heads(), config_.width,
        config_.mlp_width(), config_.context, config_.vocabulary);
  }
  return fmt::format("gpt: {}, {}, width {}, context {}, vocabulary {}", plural(config_.layers, "layer"),
                     plural(config_.heads, "head"), config_.width, config_.context, config_.vocabulary);
}

std::string TokenWorkload::data_line() const {
  return fmt::format(
      "{}: {} {}s to train on, {} held out",
      plural(static_cast<std::int64_t>(corpus_.file_count()), corpus_.has_shards() ? "shard" : "file"),
      corpus_.training().size(), unit(), corpus_.held_out_size());
}

MemorySegments TokenWorkload::memory(std::uint64_t max_samples, std::size_t extra,
                                     std::size_t real_bytes) const {
  MemorySegments segments = models::gpt_memory(config_, max_samples, real_bytes, extra, recompute_);
  const auto context = static_cast<std::uint64_t>(config_.context);
  segments.push_back({"samples", (2 * max_samples * context + context + 1) * sizeof(compute::Token)});
  return segments;
}

std::unique_ptr<Model> TokenWorkload::build(compute::Compute<float>& compute, std::uint64_t max_samples,
                                            std::size_t extra) const {
  return std::make_unique<TokenModel<float>>(config_, corpus_, windows_, compute, max_samples, extra,
                                             recompute_);
}

std::unique_ptr<Model> TokenWorkload::build(compute::Compute<bfloat16>& compute, std::uint64_t max_samples,
                                            std::size_t extra) const {
  return std::make_unique<TokenModel<bfloat16>>(config_, corpus_, windows_, compute, max_samples, extra,
                                                recompute_);
}

// The first layer has the embeddings, and the last one the output layer.
std::vector<int> TokenWorkload::layer_kinds() const {
  std::vector<int> kinds(static_cast<std::size_t>(config_.layers), 1);
  kinds.back() = config_.layers > 2 ? 2 : 1;
  kinds.front() = 0;
  return kinds;
}

StageTable TokenWorkload::stage_table(const models::LayerRange& layers) const {
  return {models::gpt_tensors(config_, layers), models::first_tensor(config_, layers),
          layers.has_copied_table(config_)};
}

MemorySegments TokenWorkload::stage_memory(const StageSettings& settings, std::size_t real_bytes) const {
  MemorySegments segments =
      models::gpt_memory(config_, {settings.layers, settings.slots, settings.weight_slots},
                         settings.max_samples, real_bytes, settings.extra, recompute_);
  const auto context = static_cast<std::uint64_t>(config_.context);
  const auto samples = static_cast<std::uint64_t>(settings.slots) * settings.max_samples;
  segments.push_back({"samples", (2 * samples * context + context + 1) * sizeof(compute::Token)});
  return segments;
}

std::unique_ptr<StageModel> TokenWorkload::build_stage(compute::Compute<float>& compute,
                                                       const StageSettings& settings) const {
  return std::make_unique<TokenStage<float>>(config_, corpus_, windows_, compute, settings, recompute_);
}

std::unique_ptr<StageModel> TokenWorkload::build_stage(compute::Compute<bfloat16>& compute,
                                                       const StageSettings& settings) const {
  return std::make_unique<TokenStage<bfloat16>>(config_, corpus_, windows_, compute, settings, recompute_);
}

}  // namespace muster
