// SPDX-License-Identifier: Apache-2.0
#include "weights/weight_source.hpp"

#include <fmt/format.h>

#include "checkpoint/checkpoint.hpp"
#include "checkpoint/find_checkpoint.hpp"
#include "muster/error.hpp"
#include "text/printable.hpp"
#include "weights/huggingface_folder.hpp"
#include "weights/llmc_file.hpp"
#include "weights/safetensors_weights.hpp"

namespace muster::weights {
namespace {

namespace fs = std::filesystem;

class CheckpointWeights final : public WeightSource {
 public:
  explicit CheckpointWeights(const fs::path& folder) : checkpoint_(folder) {
    const TrainingState& state = checkpoint_.state();
    const auto config = models::parse_gpt_text(state.model);
    if (!config) {
      throw Error(ErrorCode::usage, fmt::format("{} holds another model than a GPT: {}", folder.string(),
                                                printable(state.model.substr(0, 60))));
    }
    config_ = *config;
    tokenizer_ = state.tokenizer;
  }

  void read(std::span<float> parameters) const override {
    checkpoint_.read(models::gpt_tensors(config_), {parameters, {}, {}});
  }

 private:
  Checkpoint checkpoint_;
};

}  // namespace

std::unique_ptr<WeightSource> open_weights(const fs::path& path) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (!fs::exists(status))
    throw Error(ErrorCode::usage, fmt::format("cannot open {}: {}", path.string(),
                                              error ? error.message() : "no such file or folder"));
  if (fs::is_directory(status)) {
    if (const auto checkpoint = find_checkpoint(path))
      return std::make_unique<CheckpointWeights>(*checkpoint);
    if (fs::exists(path / HuggingfaceFolder::config_name, error))
      return std::make_unique<HuggingfaceFolder>(path);
  } else if (path.extension() == ".bin") {
    return std::make_unique<LlmcFile>(path);
  } else if (path.extension() == ".safetensors") {
    return std::make_unique<SafetensorsWeights>(path);
  }
  throw Error(ErrorCode::usage,
              fmt::format("{} holds no weights: name a checkpoint, an output folder, a Hugging Face folder "
                          "with config.json, llm.c's .bin, or a .safetensors of muster-train export",
                          path.string()));
}

}  // namespace muster::weights
