// SPDX-License-Identifier: Apache-2.0
#include "training/token_workload.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "models/model_memory.hpp"
#include "text/plural.hpp"
#include "training/validation.hpp"

namespace muster {
namespace {

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
    const auto context = static_cast<std::size_t>(gpt_.config().context);
    count_ = count;
    for (std::uint64_t i = 0; i < count; ++i) {
      corpus_.training().copy(windows_.start(first + i), context + 1, gpt_.config().vocabulary,
                              window_.data());
      std::copy_n(window_.data(), context, tokens_.data() + i * context);
      std::copy_n(window_.data() + 1, context, targets_.data() + i * context);
    }
  }

  void gradients(float gradient_scale, const Ready& ready) override {
    gpt_.gradients(tokens_.data(), targets_.data(), static_cast<int>(count_), gpt_.config().context,
                   gradient_scale, ready);
  }

  Validation validate_share(int rank, int ranks, bool fixed, const ShouldStop& should_stop) override {
    const auto group = static_cast<std::uint64_t>(fixed ? gpt_.max_batch() : 1);
    return {muster::validate_share(gpt_, corpus_.held_out_with_lead(), rank, ranks, group, should_stop), {}};
  }

 private:
  const data::Corpus& corpus_;
  const data::SampleWindows& windows_;
  models::Gpt<Real> gpt_;
  std::uint64_t count_ = 0;
  std::vector<compute::Token> window_, tokens_, targets_;  ///< the last two: [max_samples, context]
};

}  // namespace

TokenWorkload::TokenWorkload(const models::GptConfig& config, data::Corpus corpus, std::uint64_t seed,
                             bool recompute)
    : config_(config),
      corpus_(std::move(corpus)),
      windows_(corpus_.training().size(), config.context, seed),
      recompute_(recompute) {}

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

}  // namespace muster
