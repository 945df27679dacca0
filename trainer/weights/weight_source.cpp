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

void check_tokenizer(const DataTokens& data, const WeightSource& weights, const std::string& from) {
  constexpr int byte_values = 256;
  const std::string& known = weights.tokenizer();
  const bool is_text = data.tokenizer == byte_tokenizer;
  const bool can_be_bytes = weights.config().vocabulary <= byte_values;
  if (data.tokenizer.empty() || data.tokenizer == known) return;
  if (known.empty() && (!is_text || can_be_bytes)) return;
  const std::string tokens = is_text ? "is text, whose tokens are bytes" : "has shards of another tokenizer";
  const std::string remedy =
      known == byte_tokenizer
          ? fmt::format("{} was trained on bytes: pass text", from)
          : fmt::format(
                "{} {}: pass shards that muster-train tokenize has written with its tokenizer.json", from,
                known.empty()
                    ? fmt::format("does not say how text becomes its {} tokens", weights.config().vocabulary)
                    : "was trained on the tokens of a tokenizer.json");
  throw Error(ErrorCode::usage, fmt::format("--data {} {}, and {}", data.path, tokens, remedy));
}

}  // namespace muster::weights
