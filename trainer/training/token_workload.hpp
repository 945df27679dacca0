// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "checkpoint/training_state.hpp"
#include "data/corpus.hpp"
#include "data/sample_windows.hpp"
#include "models/gpt.hpp"
#include "training/workload.hpp"

namespace muster {

/// A GPT on the tokens of a text or of token shards.
class TokenWorkload final : public Workload {
 public:
  /// @throws muster::Error(ErrorCode::usage) when there are fewer tokens to train on than one sample needs.
  /// `recompute`: see models::Gpt.
  TokenWorkload(const models::GptConfig& config, data::Corpus corpus, std::uint64_t seed,
                bool recompute = false);

  std::string model_text() const override { return models::gpt_text(config_); }
  std::string model_line() const override;
  std::string data_line() const override;
  const char* unit() const noexcept override { return corpus_.has_shards() ? "token" : "byte"; }
  std::int64_t predictions_per_sample() const noexcept override { return config_.context; }
  double flops_per_sample() const override { return models::gpt_flops_per_token(config_) * config_.context; }
  std::uint64_t samples_per_epoch() const noexcept override { return windows_.per_epoch(); }
  std::uint64_t held_out() const noexcept override { return corpus_.held_out_size(); }
  std::string tokenizer() const override {
    return corpus_.has_shards() ? corpus_.tokenizer_file() : byte_tokenizer;
  }
  std::uint64_t data_hash() const noexcept override { return corpus_.hash(); }
  models::TensorTable table() const override { return models::gpt_tensors(config_); }
  MemorySegments memory(std::uint64_t max_samples, std::size_t extra, std::size_t real_bytes) const override;
  std::unique_ptr<Model> build(compute::Compute<float>& compute, std::uint64_t max_samples,
                               std::size_t extra) const override;
  std::unique_ptr<Model> build(compute::Compute<bfloat16>& compute, std::uint64_t max_samples,
                               std::size_t extra) const override;

  int layers() const noexcept override { return config_.layers; }
  std::vector<int> layer_kinds() const override;
  StageTable stage_table(const models::LayerRange& layers) const override;
  double stage_flops(const models::LayerRange& layers) const override {
    return models::gpt_flops_per_token(config_, layers) * config_.context;
  }
  MemorySegments stage_memory(const StageSettings& settings, std::size_t real_bytes) const override;
  std::unique_ptr<StageModel> build_stage(compute::Compute<float>& compute,
                                          const StageSettings& settings) const override;
  std::unique_ptr<StageModel> build_stage(compute::Compute<bfloat16>& compute,
                                          const StageSettings& settings) const override;

 private:
  models::GptConfig config_;
  data::Corpus corpus_;
  data::SampleWindows windows_;
  bool recompute_;
};

}  // namespace muster
