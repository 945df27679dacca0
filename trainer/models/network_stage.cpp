// SPDX-License-Identifier: Apache-2.0
#include "models/network_stage.hpp"

#include <algorithm>

namespace muster::models {
namespace {

/// Tensors [begin, end) of a table.
struct TensorRange {
  std::size_t begin = Layer::no_tensor, end = 0;
  void add(std::size_t tensor) {
    if (tensor == Layer::no_tensor) return;
    begin = std::min(begin, tensor);
    end = std::max(end, tensor + 1);
  }
  std::size_t count() const { return end > begin ? end - begin : 0; }
};

int count_uses(const ImageNetwork& network, std::size_t number) {
  int uses = 0;
  for (const Layer& layer : network.layers) {
    if (layer.kind == LayerKind::images) continue;
    uses += (layer.input == number) + (layer.addend == number);
  }
  return uses;
}

/// The layers behind `before` up to `last`, numbered from 1 on. `trained` and `statistics` get their tensors.
void take_layers(NetworkStage& stage, const ImageNetwork& network, std::size_t before, std::size_t last,
                 TensorRange& trained, TensorRange& statistics) {
  stage.network.layers.push_back({.out = network.layers[before].out});
  for (std::size_t number = before + 1; number <= last; ++number) {
    Layer layer = network.layers[number];
    layer.input -= before;
    if (layer.addend) *layer.addend -= before;
    for (const std::size_t tensor : {layer.weight, layer.bias}) trained.add(tensor);
    for (const std::size_t tensor : {layer.mean, layer.variance}) statistics.add(tensor);
    if (layer.dropout >= 0) {
      if (stage.network.dropout.empty()) stage.first_dropout = static_cast<std::size_t>(layer.dropout);
      stage.network.dropout.push_back(network.dropout[static_cast<std::size_t>(layer.dropout)]);
      layer.dropout -= static_cast<int>(stage.first_dropout);
    }
    stage.network.layers.push_back(layer);
  }
}

}  // namespace

std::vector<std::size_t> block_ends(const ImageNetwork& network) {
  std::vector<std::size_t> ends{network.layers.size() - 1};
  std::size_t earliest = network.layers.size();  // layer whose output the layers from `number` on take
  for (std::size_t number = network.layers.size() - 1; number > 1; --number) {
    const Layer& layer = network.layers[number];
    earliest = std::min({earliest, layer.input, layer.addend.value_or(layer.input)});
    const bool begins = layer.is_product() && !network.layers[number - 1].is_product();
    if (begins && earliest == number - 1) ends.push_back(number - 1);
  }
  std::reverse(ends.begin(), ends.end());
  return ends;
}

NetworkStage take_blocks(const ImageNetwork& network, const std::vector<std::size_t>& ends,
                         const LayerRange& blocks) {
  const auto end_of = [&](int block) { return ends[static_cast<std::size_t>(block)]; };
  NetworkStage stage;
  stage.is_first = blocks.first == 0;
  const std::size_t before = stage.is_first ? 0 : end_of(blocks.first - 1), last = end_of(blocks.last - 1);
  if (last + 1 < network.layers.size()) stage.output_uses = count_uses(network, last);
  stage.network.text = network.text;
  TensorRange trained, statistics;
  take_layers(stage, network, before, last, trained, statistics);
  stage.first_tensor = trained.begin;
  stage.first_statistic = statistics.count() > 0 ? statistics.begin : network.table.tensors.size();
  for (Layer& layer : stage.network.layers) {
    for (std::size_t* const tensor : {&layer.weight, &layer.bias})
      if (*tensor != Layer::no_tensor) *tensor -= trained.begin;
    for (std::size_t* const tensor : {&layer.mean, &layer.variance})
      if (*tensor != Layer::no_tensor) *tensor = *tensor - statistics.begin + trained.count();
  }
  stage.network.table.append(network.table, trained.begin, trained.end);
  stage.network.table.append(network.table, stage.first_statistic,
                             stage.first_statistic + statistics.count());
  return stage;
}

}  // namespace muster::models
