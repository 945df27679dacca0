// SPDX-License-Identifier: Apache-2.0
#include "models/model_memory.hpp"

#include <algorithm>
#include <initializer_list>
#include <vector>

#include "models/gpt_decoder.hpp"
#include "models/gradient_plan.hpp"
#include "models/rotary_table.hpp"

namespace muster::models {
namespace {

/// Bytes of blocks in an arena; each block fills whole cache lines.
class Blocks {
 public:
  explicit Blocks(std::size_t element_bytes) : element_bytes_(element_bytes) {}
  std::uint64_t operator()(std::uint64_t elements, std::uint64_t blocks = 1) const {
    constexpr std::uint64_t line = compute::Arena<float>::alignment;
    return blocks * ((elements * element_bytes_ + line - 1) / line * line);
  }

 private:
  std::uint64_t element_bytes_;
};

void add_activations(MemorySegments& segments, const char* kind, std::uint64_t bytes) {
  segments.push_back({kind, bytes, true});
}

/// Bytes of compute::Accurate for a type of `real_bytes`.
std::size_t accurate_bytes(std::size_t real_bytes) { return std::max(real_bytes, sizeof(float)); }

void add_tensors(MemorySegments& segments, const TensorTable& table, std::size_t real_bytes,
                 std::size_t extra) {
  const std::size_t accurate = accurate_bytes(real_bytes);
  const std::uint64_t arena = table.arena_size * accurate;
  segments.push_back({"parameters", arena});
  segments.push_back({"gradients", Blocks(accurate)(extra) + arena});
  if (real_bytes < accurate) segments.push_back({"rounded parameters", table.arena_size * real_bytes});
}

}  // namespace

MemorySegments gpt_memory(const GptConfig& config, const GptStage& stage, std::uint64_t max_batch,
                          std::size_t real_bytes, std::size_t extra, bool recompute) {
  const Blocks reals(real_bytes), accurate(accurate_bytes(real_bytes));
  const auto slots = static_cast<std::uint64_t>(stage.micro_batches),
             layers = static_cast<std::uint64_t>(stage.layers.count()) * slots,
             width = static_cast<std::uint64_t>(config.width),
             qkv_width = static_cast<std::uint64_t>(config.qkv_width()),
             expanded = static_cast<std::uint64_t>(config.expanded_width()),
             hidden = static_cast<std::uint64_t>(config.mlp_width());
  const std::uint64_t per_norm = config.llama ? 1 : 2;  // statistics of a normalization
  const std::uint64_t kept = recompute ? 1 : layers;    // layers whose activations are in memory together
  const bool has_output = stage.layers.has_output(config);
  const std::uint64_t final_norms = has_output ? slots : 1;  // or one whose result is not used
  const std::uint64_t rows = max_batch * static_cast<std::uint64_t>(config.context);
  MemorySegments segments;
  add_tensors(segments, gpt_tensors(config, stage.layers), real_bytes, extra);
  add_activations(segments, "residual stream",
                  accurate(rows * width, layers + kept + slots) + reals(rows * width));
  add_activations(
      segments, "normalizations",
      reals(rows * width, 2 * kept + final_norms) + accurate(rows, per_norm * (2 * kept + final_norms)));
  add_activations(segments, "attention",
                  reals(rows * width, kept) + reals(rows * qkv_width, kept) +
                      accurate(rows * static_cast<std::uint64_t>(config.heads), kept));
  add_activations(segments, "MLP", reals(rows * expanded, kept) + reals(rows * hidden, kept));
  const auto weight_slots = static_cast<std::uint64_t>(stage.weight_slots),
             own_layers = static_cast<std::uint64_t>(stage.layers.count());
  const bool keeps_logits = weight_slots > 0 && !stage.layers.has_copied_table(config);
  if (has_output) {
    add_activations(
        segments, "logits",
        reals(rows * static_cast<std::uint64_t>(config.vocabulary), keeps_logits ? weight_slots : 1));
  }
  const std::uint64_t products = weight_slots > 0 ? weight_slots * own_layers : 1;
  // For matrix products; weight slots have one for each of them.
  const bool rounds = real_bytes < accurate_bytes(real_bytes) && weight_slots == 0;
  add_activations(segments, "activation gradients",
                  accurate(rows * width, slots) +
                      reals(rows * width, 2 + 2 * weight_slots * own_layers + (rounds ? 1 : 0)) +
                      reals(rows * expanded, products) + reals(rows * qkv_width, products) +
                      (config.llama ? reals(rows * hidden) : 0) +
                      accurate(width, weight_slots * (config.llama ? 1 : 2) * (2 * own_layers + has_output)));
  if (config.llama)
    segments.push_back({"rotary positions", rotary_size(config) * accurate_bytes(real_bytes)});
  return segments;
}

MemorySegments decoder_memory(const GptConfig& config, std::size_t real_bytes) {
  const Blocks reals(real_bytes), floats(sizeof(float));
  const auto rows = static_cast<std::uint64_t>(std::min(decoder_rows, config.context)),
             width = static_cast<std::uint64_t>(config.width);
  const std::uint64_t cached = static_cast<std::uint64_t>(config.layers) *
                               static_cast<std::uint64_t>(config.context) *
                               static_cast<std::uint64_t>(config.kv_width());
  const std::uint64_t parameters = gpt_tensors(config).arena_size;
  MemorySegments segments;
  segments.push_back({"parameters", parameters * real_bytes});
  segments.push_back({"parameters that are rounded", floats(std::min<std::uint64_t>(parameters, 1 << 24))});
  segments.push_back({"keys and values", reals(cached, 2)});
  add_activations(segments, "activations",
                  reals(rows * width, 3) + floats(rows * width, 2) +
                      reals(rows * static_cast<std::uint64_t>(config.qkv_width())) +
                      reals(rows * static_cast<std::uint64_t>(config.expanded_width())) +
                      reals(rows * static_cast<std::uint64_t>(config.mlp_width())) +
                      reals(static_cast<std::uint64_t>(config.vocabulary) + 64) + floats(2 * rows) +
                      floats(rotary_size(config)));
  return segments;
}

MemorySegments conv_net_memory(const NetworkStage& stage, const ConvNetSizes& sizes, std::size_t real_bytes,
                               std::size_t extra) {
  const Blocks reals(real_bytes), sums(accurate_bytes(real_bytes));
  const std::vector<Layer>& layers = stage.network.layers;
  const TensorTable& table = stage.network.table;
  const auto weight_slots = static_cast<std::uint64_t>(sizes.weight_slots);
  const GradientPlan plan(stage.network, !stage.is_first, stage.output_uses, weight_slots > 0);
  const auto training_batch = static_cast<std::uint64_t>(sizes.training_batch);
  std::uint64_t kept = 0, gradients = 0;
  for (int slot = 0; slot < sizes.slots; ++slot) {
    const auto images = static_cast<std::uint64_t>(slot == 0 ? sizes.max_batch : sizes.training_batch);
    for (std::size_t i = stage.is_first ? 1 : 0; i < layers.size(); ++i) {
      const std::uint64_t elements = images * layers[i].out.elements();
      kept += reals(elements);
      if (layers[i].kind == LayerKind::max_pool) kept += Blocks(1)(elements);
      if (layers[i].kind == LayerKind::batch_norm)
        kept += sums(static_cast<std::uint64_t>(layers[i].out.channels), 2);
    }
    if (sizes.slots > 1) kept += sums(table.arena_size - table.trained_size);
    for (const auto& part : {plan.layers.front().d_out, plan.layers.front().d_also})
      if (part) gradients += reals(training_batch * layers.front().out.elements());
  }
  for (const GradientPlan::Buffer& buffer : plan.buffers)
    gradients += reals(training_batch * buffer.elements, buffer.is_kept ? weight_slots : 1);
  for (const Layer& layer : layers) {
    if (layer.kind == LayerKind::batch_norm)
      gradients += sums(static_cast<std::uint64_t>(layer.out.channels), 2 * weight_slots);
  }
  MemorySegments segments;
  add_tensors(segments, table, real_bytes, extra);
  add_activations(segments, "layer outputs", kept);
  add_activations(segments, "activation gradients", gradients);
  return segments;
}

MemorySegments conv_net_memory(const ImageNetwork& network, std::uint64_t max_batch, std::size_t real_bytes,
                               std::size_t extra) {
  return conv_net_memory(NetworkStage{network}, {static_cast<int>(max_batch)}, real_bytes, extra);
}

}  // namespace muster::models
