// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "compute/compute.hpp"
#include "compute/cpu/cpu_compute.hpp"
#include "models/memory_segment.hpp"
#include "models/model_tensors.hpp"
#include "training/model.hpp"
#include "training/workload.hpp"

namespace muster {

/// A model that computes on a device and whose tensors are in host memory: the parameters and their rounded
/// copy where the caller has them, the gradients in memory that the device copies to. The device has the
/// rounded parameters, gradients and activations, and a network with batch normalization also the
/// parameters, which it reads there.
class OffloadedModel final : public Model {
 public:
  /// `device`: as Workload::build() made it, with UpdateCompute::set_rounded_only(). `updates` runs on the
  /// host and gets the loss. `parameters`: see ModelTensors. All outlive the model.
  OffloadedModel(std::unique_ptr<Model> device, compute::UpdateCompute<float>& device_compute,
                 compute::UpdateCompute<float>& updates, std::size_t extra, compute::Memory& parameters);
  /// Waits for copies.
  ~OffloadedModel() override;

  /// Those on the host.
  models::ModelTensors<float>& tensors() noexcept override { return host_; }
  std::size_t bytes() const noexcept override { return device_->bytes() + host_.bytes(); }
  void prefetch(std::span<const Share> samples) override { device_->prefetch(samples); }
  std::vector<std::string> left_out() const override { return device_->left_out(); }
  void load_samples(std::uint64_t first, std::uint64_t count) override {
    device_->load_samples(first, count);
  }
  /// `all_reduce` takes host memory, to which the device's values are copied.
  void synchronize_batch_norm(const AllReduce& all_reduce) override;
  /// A gradient is copied while the device computes the next ones, and ready once it is on the host. Returns
  /// when all are.
  void gradients(float gradient_scale, const Ready& ready) override;
  Validation validate_share(int rank, int ranks, bool fixed, const ShouldStop& should_stop) override {
    return device_->validate_share(rank, ranks, fixed, should_stop);
  }
  /// Starts to copy these of the host's parameters to the device, whose later work waits for them. They must
  /// not change before the next gradients() or finish_upload() returns.
  void upload(const Share& elements);
  /// @throws Error(ErrorCode::deadline) when the copies do not end in time.
  void finish_upload();

 private:
  void download(std::size_t tensor);

  std::unique_ptr<Model> device_;
  compute::UpdateCompute<float>&device_compute_, &updates_;
  models::ModelTensors<float> host_;
  std::unique_ptr<compute::SideStream> side_stream_;  ///< null: the device's copies wait
  std::vector<std::pair<std::size_t, std::unique_ptr<compute::StreamPosition>>> copies_;  ///< by tensor
  std::vector<std::unique_ptr<compute::PinnedRange>> pinned_;
  std::unique_ptr<compute::StreamPosition> uploaded_;
};

/// What is left on the device of a model's memory, `model`, and the gradients on the host. Their parameters
/// are the caller's.
MemorySegments estimate_offloaded_model(const Workload& workload, const MemorySegments& model);

/// The kernels that update on the host, and the model whose gradients they use; empty without a device.
class HostUpdates {
 protected:
  /// `threads`: 0 without a device.
  explicit HostUpdates(int threads);

  compute::UpdateCompute<float>& choose(compute::UpdateCompute<float>& compute) {
    return cpu_ ? *cpu_ : compute;
  }
  /// `parameters`: the host's memory of them.
  template <typename Real>
  std::unique_ptr<Model> build(const Workload& workload, compute::Compute<Real>& compute,
                               std::uint64_t max_samples, std::size_t extra, compute::Memory& parameters);
  /// As OffloadedModel; nothing without a device.
  void upload(const Share& elements) {
    if (model_) model_->upload(elements);
  }
  void finish_upload() {
    if (model_) model_->finish_upload();
  }

 private:
  std::optional<compute::cpu::CpuCompute<float>> cpu_;
  OffloadedModel* model_ = nullptr;  ///< the replica's
};

}  // namespace muster
