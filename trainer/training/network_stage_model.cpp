// SPDX-License-Identifier: Apache-2.0
#include "training/network_stage_model.hpp"

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include "models/conv_net.hpp"
#include "models/model_memory.hpp"
#include "training/input_layout.hpp"
#include "training/network_sample.hpp"

namespace muster {
namespace {

models::ConvNetSizes sizes_of(const StageSettings& settings) {
  return {static_cast<int>(std::max(settings.max_samples, least_validation_batch)),
          static_cast<int>(settings.max_samples), settings.slots, settings.weight_slots};
}

std::size_t images_in(const models::ConvNetSizes& sizes, int slot) {
  return static_cast<std::size_t>(slot == 0 ? sizes.max_batch : sizes.training_batch);
}

/// What a stage keeps of the samples in a slot for so many images.
InputLayout inputs_of(const models::NetworkStage& stage, std::size_t images, std::size_t real_bytes) {
  return {stage.network.dropout, stage.is_first ? stage.network.images().elements() : 0, images, real_bytes};
}
std::size_t labels_of(const models::NetworkStage& stage, std::size_t images) {
  return stage.is_first || stage.is_last() ? images : 0;
}

/// Pixels that a last stage reads and does not use.
std::size_t unused_pixels(const models::NetworkStage& stage, const models::ConvNetSizes& sizes,
                          const models::ImageNetwork& whole) {
  return stage.is_last() && !stage.is_first ? images_in(sizes, 0) * whole.images().elements() : 0;
}

std::size_t sample_bytes(const models::NetworkStage& stage, const models::ConvNetSizes& sizes,
                         const models::ImageNetwork& whole, std::size_t real_bytes) {
  std::size_t bytes = unused_pixels(stage, sizes, whole) * real_bytes;
  for (int slot = 0; slot < sizes.slots; ++slot) {
    const std::size_t images = images_in(sizes, slot);
    bytes += inputs_of(stage, images, real_bytes).size * real_bytes +
             labels_of(stage, images) * sizeof(compute::Token);
  }
  return bytes;
}

template <typename Real>
class NetworkStageModel final : public StageModel {
 public:
  NetworkStageModel(const NetworkWorkload& workload, compute::Compute<Real>& compute,
                    const StageSettings& settings)
      : workload_(workload),
        sizes_(sizes_of(settings)),
        compute_(compute),
        net_(workload.take_stage(settings.layers), sizes_, compute, settings.extra),
        unused_pixels_(unused_pixels(net_.stage(), sizes_, workload.network())),
        slots_(static_cast<std::size_t>(sizes_.slots)) {
    if (reads_samples()) loader_ = workload.make_loader<Real>(compute.threads());
    for (int number = 0; number < sizes_.slots; ++number) {
      const std::size_t images = images_in(sizes_, number);
      Slot& slot = at(number);
      slot.layout = inputs_of(net_.stage(), images, sizeof(Real));
      slot.inputs = compute::Arena<Real>(slot.layout.size, compute.memory());
      slot.labels.resize(labels_of(net_.stage(), images));
    }
    if (!compute.memory().is_host()) staging_.resize(at(0).layout.size);
  }

  models::ModelTensors<float>& tensors() noexcept override { return net_.tensors(); }
  std::size_t bytes() const noexcept override {
    return net_.bytes() + sample_bytes(net_.stage(), sizes_, workload_.network(), sizeof(Real));
  }

  void prefetch(std::span<const Share> samples) override {
    if (loader_) loader_->prefetch(samples);
  }
  std::vector<std::string> left_out() const override {
    return loader_ ? loader_->left_out() : std::vector<std::string>{};
  }
  void load_samples(int number, std::uint64_t first, std::uint64_t count) override {
    Slot& slot = at(number);
    slot.batch = static_cast<int>(count);
    slot.is_held_out = false;
    const models::NetworkStage& stage = net_.stage();
    for (std::size_t dropout = 0; dropout < slot.layout.factors.size(); ++dropout) {
      const int channels = stage.network.dropout[dropout];
      Real* to = host_inputs(slot) + slot.layout.factors[dropout];
      for (std::uint64_t i = 0; i < count; ++i, to += channels)
        draw_dropout(workload_.settings().seed, stage.first_dropout + dropout, first + i, channels, to);
    }
    if (loader_) loader_->load(first, count, host_pixels(slot), slot.labels.data());
    send_inputs(slot);
  }

  std::span<std::byte> input(int slot) override { return exchanged(slot, net_.input(slot), images()); }
  std::span<std::byte> output(int slot) override {
    return exchanged(slot, net_.output(slot), net_.network().layers.back().out);
  }
  std::vector<std::span<std::byte>> input_gradient(int slot) override {
    return exchanged(slot, net_.input_gradient(slot), images());
  }
  std::vector<std::span<std::byte>> output_gradient(int slot) override {
    return exchanged(slot, net_.output_gradient(), net_.network().layers.back().out);
  }
  void forward(int number, float gradient_scale) override {
    const Slot& slot = at(number);
    const Real *const inputs = slot.inputs.data(), *const pixels = inputs + slot.layout.pixels;
    if (slot.is_held_out) return net_.infer(number, pixels, slot.batch);
    typename models::ConvNet<Real>::Dropout dropout;
    for (const std::size_t factors : slot.layout.factors) dropout.push_back(inputs + factors);
    net_.forward(number, pixels, slot.batch, dropout, gradient_scale);
  }
  void backward(int slot, float gradient_scale, const Model::Ready& ready) override {
    net_.backward(slot, at(slot).labels.data(), gradient_scale, ready);
  }
  void backward_input(int slot, int weight_slot, float gradient_scale, const Model::Ready&) override {
    net_.backward_input(slot, weight_slot, at(slot).labels.data(), gradient_scale);
  }
  void backward_weight(int slot, int weight_slot, const Model::Ready& ready) override {
    net_.backward_weight(slot, weight_slot, ready);
  }

  void synchronize_batch_norm(const Model::AllReduce& all_reduce) override {
    net_.synchronize_batch_norm(all_reduce);
  }

  void begin_validation(int rank, int ranks, bool fixed) override {
    held_out_ = share_held_out(workload_.held_out(), fixed ? max_batch() : 1, rank, ranks);
  }
  bool next_held_out(int number) override {
    if (held_out_.begin >= held_out_.end) return false;
    Slot& slot = at(number);
    slot.is_held_out = true;
    slot.first = held_out_.begin;
    slot.usable = std::min(max_batch(), held_out_.count());
    slot.batch = static_cast<int>(slot.usable);
    held_out_.begin += slot.usable;
    return true;
  }
  // The first images are those that can be used; the others of the batch are computed, too, and do not count.
  void load_held_out(int number) override {
    Slot& slot = at(number);
    if (loader_)
      slot.usable = loader_->load_held_out(slot.first, slot.usable, host_pixels(slot), slot.labels.data());
    send_inputs(slot);
  }
  Validation held_out_result(int number) override {
    const Slot& slot = at(number);
    if (slot.usable == 0) return {};
    const auto images = static_cast<double>(slot.usable);
    const auto result = net_.output_loss(number, slot.labels.data(), static_cast<int>(slot.usable));
    return {{round_for_exact_sum(result.loss), images}, {static_cast<double>(result.right), images}};
  }

 private:
  struct Slot {
    InputLayout layout;  ///< with pixels in the first stage
    compute::Arena<Real> inputs;
    std::vector<compute::Token> labels;
    bool is_held_out = false;
    std::uint64_t first = 0, usable = 0;  ///< held-out images
    int batch = 0;
  };
  Slot& at(int slot) { return slots_[static_cast<std::size_t>(slot)]; }
  bool reads_samples() const { return net_.stage().is_first || net_.stage().is_last(); }
  std::uint64_t max_batch() const { return static_cast<std::uint64_t>(sizes_.max_batch); }
  const models::ImageSize& images() const { return net_.network().images(); }
  /// Where the host writes the inputs, until send_inputs().
  Real* host_inputs(Slot& slot) { return staging_.empty() ? slot.inputs.data() : staging_.data(); }
  Real* host_pixels(Slot& slot) {
    return net_.stage().is_first ? host_inputs(slot) + slot.layout.pixels : unused_pixels_.data();
  }
  // What is sent stays until the next micro-batch is sent, and the backward pass comes later.
  void send_inputs(Slot& slot) {
    if (staging_.empty()) return;
    const std::size_t images = net_.stage().is_first ? static_cast<std::size_t>(slot.batch) : 0,
                      count = slot.layout.pixels + images * net_.network().images().elements();
    compute_.copy(slot.inputs.data(), compute_.images()->send(staging_.data(), count, staging_.size()),
                  count * sizeof(Real));
  }
  std::span<std::byte> exchanged(int slot, Real* values, const models::ImageSize& size) {
    return std::as_writable_bytes(
        std::span(values, static_cast<std::size_t>(at(slot).batch) * size.elements()));
  }
  std::vector<std::span<std::byte>> exchanged(int slot, const std::vector<Real*>& parts,
                                              const models::ImageSize& size) {
    std::vector<std::span<std::byte>> spans;
    for (Real* const part : parts) spans.push_back(exchanged(slot, part, size));
    return spans;
  }

  const NetworkWorkload& workload_;
  models::ConvNetSizes sizes_;
  compute::Compute<Real>& compute_;
  models::ConvNet<Real> net_;
  std::unique_ptr<ImageLoader<Real>> loader_;  ///< of the first stage and the last one
  std::vector<Real> unused_pixels_;
  std::vector<Slot> slots_;
  std::vector<Real> staging_;  ///< the host's copy of a slot's inputs; empty where they are the host's
  Share held_out_{};           ///< what is left of the share
};

}  // namespace

std::unique_ptr<StageModel> build_network_stage(const NetworkWorkload& workload,
                                                compute::Compute<float>& compute,
                                                const StageSettings& settings) {
  return std::make_unique<NetworkStageModel<float>>(workload, compute, settings);
}

std::unique_ptr<StageModel> build_network_stage(const NetworkWorkload& workload,
                                                compute::Compute<bfloat16>& compute,
                                                const StageSettings& settings) {
  return std::make_unique<NetworkStageModel<bfloat16>>(workload, compute, settings);
}

MemorySegments network_stage_memory(const NetworkWorkload& workload, const StageSettings& settings,
                                    std::size_t real_bytes) {
  const models::NetworkStage stage = workload.take_stage(settings.layers);
  const models::ConvNetSizes sizes = sizes_of(settings);
  MemorySegments segments = models::conv_net_memory(stage, sizes, real_bytes, settings.extra);
  segments.push_back({"samples", sample_bytes(stage, sizes, workload.network(), real_bytes)});
  return segments;
}

}  // namespace muster
