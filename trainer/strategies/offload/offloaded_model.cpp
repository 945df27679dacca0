// SPDX-License-Identifier: Apache-2.0
#include "strategies/offload/offloaded_model.hpp"

#include <span>
#include <vector>

#include "muster/error.hpp"

namespace muster {

OffloadedModel::OffloadedModel(std::unique_ptr<Model> device, compute::UpdateCompute<float>& device_compute,
                               compute::UpdateCompute<float>& updates, std::size_t extra,
                               compute::Memory& parameters)
    : device_(std::move(device)),
      device_compute_(device_compute),
      updates_(updates),
      host_(device_->tensors().table(), extra, true, device_compute.transfer_memory(), &parameters),
      side_stream_(device_compute.open_side_stream()) {
  if (!side_stream_ || &parameters == &device_compute.transfer_memory()) return;
  pinned_.push_back(side_stream_->pin(host_.rounded().data(), host_.rounded().size_bytes()));
  if (!device_->tensors().parameters().empty())
    pinned_.push_back(side_stream_->pin(host_.parameters().data(), host_.parameters().size_bytes()));
}

OffloadedModel::~OffloadedModel() {
  try {
    finish_upload();
  } catch (const Error&) {
    // The device has failed, which whoever uses it next sees.
  }
}

void OffloadedModel::download(std::size_t tensor) {
  const std::span<float> to = host_.extra_and_gradients()[tensor + 1];
  const float* const from = device_->tensors().gradient(tensor);
  if (!side_stream_) return device_compute_.memory().copy_out(to.data(), from, to.size_bytes());
  side_stream_->wait_for_main();
  side_stream_->download(to.data(), from, to.size_bytes());
  copies_.emplace_back(tensor, side_stream_->position());
}

void OffloadedModel::synchronize_batch_norm(const AllReduce& all_reduce) {
  device_->synchronize_batch_norm([all_reduce, &memory = device_compute_.memory()](std::span<double> values) {
    std::vector<double> on_host(values.size());
    memory.copy_out(on_host.data(), values.data(), values.size_bytes());
    all_reduce(on_host);
    memory.copy_in(values.data(), on_host.data(), values.size_bytes());
  });
}

void OffloadedModel::gradients(float gradient_scale, const Ready& ready) {
  copies_.clear();  // of a pass that failed
  device_compute_.accumulate_loss(updates_.accumulates_loss());
  device_->gradients(gradient_scale, [&](std::size_t tensor) {
    download(tensor);
    if (!side_stream_) ready(tensor);
  });
  for (const auto& [tensor, position] : copies_) {
    position->wait();
    ready(tensor);
  }
  copies_.clear();
  const double loss = device_compute_.loss();
  updates_.restore_loss(&loss);
  device_compute_.accumulate_loss(false);
}

void OffloadedModel::upload(const Share& elements) {
  models::ModelTensors<float>& device = device_->tensors();
  const auto copy = [&](auto to, auto from) {
    if (to.empty() || elements.count() == 0) return;
    to = to.subspan(elements.begin, elements.count());
    from = from.subspan(elements.begin, elements.count());
    if (side_stream_) return side_stream_->upload(to.data(), from.data(), to.size_bytes());
    device_compute_.memory().copy_in(to.data(), from.data(), to.size_bytes());
  };
  if (side_stream_) side_stream_->wait_for_main();  // which may still read the last ones
  copy(device.rounded(), host_.rounded());
  copy(device.parameters(), host_.parameters());
  if (!side_stream_) return;
  uploaded_ = side_stream_->position();
  uploaded_->block_main();
}

void OffloadedModel::finish_upload() {
  if (uploaded_) uploaded_->wait();
  uploaded_.reset();
}

MemorySegments estimate_offloaded_model(const Workload& workload, const MemorySegments& model) {
  const bool reads_parameters = workload.table().trained_size < workload.table().arena_size;
  MemorySegments segments;
  for (const MemorySegment& segment : model) {
    if (segment.name == "parameters" && !reads_parameters) continue;
    if (segment.name == "gradients")
      segments.push_back({"gradients on the host", segment.bytes, false, false, true});
    segments.push_back(segment);
  }
  return segments;
}

HostUpdates::HostUpdates(int threads) {
  if (threads > 0) cpu_.emplace(compute::cpu::CpuCompute<float>::Options{threads, true, nullptr});
}

template <typename Real>
std::unique_ptr<Model> HostUpdates::build(const Workload& workload, compute::Compute<Real>& compute,
                                          std::uint64_t max_samples, std::size_t extra,
                                          compute::Memory& parameters) {
  if (!cpu_) {
    compute.set_parameter_memory(&parameters);
    auto model = workload.build(compute, max_samples, extra);
    compute.set_parameter_memory(nullptr);
    return model;
  }
  compute.set_rounded_only(true);
  auto device = workload.build(compute, max_samples, extra);
  compute.set_rounded_only(false);
  auto model = std::make_unique<OffloadedModel>(std::move(device), compute, *cpu_, extra, parameters);
  model_ = model.get();
  return model;
}

template std::unique_ptr<Model> HostUpdates::build(const Workload&, compute::Compute<float>&, std::uint64_t,
                                                   std::size_t, compute::Memory&);
template std::unique_ptr<Model> HostUpdates::build(const Workload&, compute::Compute<bfloat16>&,
                                                   std::uint64_t, std::size_t, compute::Memory&);

}  // namespace muster
