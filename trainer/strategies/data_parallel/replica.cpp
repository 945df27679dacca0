// SPDX-License-Identifier: Apache-2.0
#include "strategies/data_parallel/replica.hpp"

#include <algorithm>
#include <chrono>
#include <utility>
#include <vector>

#include "compute/host_copy.hpp"
#include "files/hash.hpp"
#include "training/host_transfer.hpp"

namespace muster {
namespace {

/// PyTorch DistributedDataParallel's default, too: half a millisecond at 50 GB/s.
constexpr std::size_t device_bucket_bytes = 25u << 20;

template <typename Real>
std::unique_ptr<Model> build_model(const Replica::Settings& settings, const Workload& workload,
                                   compute::Compute<Real>& compute, const Communicator& world,
                                   compute::Memory* parameters) {
  compute.set_label_smoothing(settings.label_smoothing);
  compute.set_parameter_memory(parameters);
  auto model = workload.build(compute, Replica::samples_at_once(settings, world.rank(), world.size()),
                              Replica::extra_scalars);
  compute.set_parameter_memory(nullptr);
  return model;
}

}  // namespace

template <typename Real>
Replica::Replica(const Settings& settings, const Workload& workload, compute::Compute<Real>& compute,
                 Communicator world, std::optional<Communicator> host, const std::optional<Storage>& storage)
    : Replica(settings, workload, compute,
              build_model(settings, workload, compute, world, storage ? &storage->parameters : nullptr),
              world, std::move(host), storage) {}

Replica::Replica(const Settings& settings, const Workload& workload, compute::UpdateCompute<float>& compute,
                 std::unique_ptr<Model> model, Communicator world, std::optional<Communicator> host,
                 const std::optional<Storage>& storage)
    : settings_(settings),
      workload_(workload),
      world_(std::move(world)),
      host_(host ? std::move(*host) : world_),
      compute_(compute),
      model_(std::move(model)),
      optimizer_(storage ? Optimizer<float>(model_->tensors().table(), settings.optimizer, compute,
                                            storage->part, storage->moments)
                         : Optimizer<float>(model_->tensors().table(), settings.optimizer, compute,
                                            rank_part(world_.rank()))) {
  compute.drop_outcomes();  // of a replica that failed
  if (sharded() && !settings.hosts.empty()) {
    copied_ranks_ = copied_ranks(settings.hosts);
    copy_.emplace(table(), settings.optimizer, compute,
                  rank_part(copied_ranks_[static_cast<std::size_t>(world_.rank())]));
  }
  if (micro_batches(settings, world_.rank(), world_.size()) > 1)
    micro_batch_sums_ = compute::Arena<float>(table().arena_size, compute.memory());
}

template Replica::Replica(const Settings&, const Workload&, compute::Compute<float>&, Communicator,
                          std::optional<Communicator>, const std::optional<Storage>&);
template Replica::Replica(const Settings&, const Workload&, compute::Compute<bfloat16>&, Communicator,
                          std::optional<Communicator>, const std::optional<Storage>&);

void Replica::initialize() {
  model_->tensors().initialize(settings_.seed);
  model_->tensors().round_parameters(compute_);
}

void Replica::initialize(const weights::WeightSource& source) {
  model_->tensors().read_parameters([&](std::span<float> parameters) { source.read(parameters); });
  model_->tensors().round_parameters(compute_);
}

std::uint64_t Replica::samples_at_once(const Settings& settings, int rank, int ranks) {
  if (settings.chunk > 0) return static_cast<std::uint64_t>(settings.chunk);
  const std::uint64_t all = share_of(static_cast<std::uint64_t>(settings.batch), rank, ranks).count();
  return settings.micro_batch > 0 ? std::min<std::uint64_t>(settings.micro_batch, all) : all;
}

std::uint64_t Replica::micro_batches(const Settings& settings, int rank, int ranks) {
  if (settings.chunk > 0) return 1;
  const std::uint64_t at_once = samples_at_once(settings, rank, ranks);
  return (share_of(static_cast<std::uint64_t>(settings.batch), rank, ranks).count() + at_once - 1) / at_once;
}

ReducerOptions Replica::reducer_options(const Settings& settings) {
  ReducerOptions options;
  options.reduction = Reduction::sum;
  const auto batch = static_cast<std::uint64_t>(settings.batch);
  const auto chunk = static_cast<std::uint64_t>(settings.chunk);
  if (chunk > 0) options.chunks = (batch + chunk - 1) / chunk;
  // NCCL's order of addition depends on an element's position in its bucket. Bucket sizes measured at each
  // start would change the bits of a resumed run.
  if (settings.on_device) options.bucket_bytes = device_bucket_bytes;
  return options;
}

std::size_t Replica::bytes() noexcept {
  const TrainingTensors own = tensors();
  return model_->bytes() + own.moment1.size_bytes() + own.moment2.size_bytes() +
         (copy_ ? copy_->bytes() : 0) + micro_batch_sums_.size() * sizeof(float);
}

void Replica::create_reducer() {
  reducer_.emplace(world_, model_->tensors().extra_and_gradients(), reducer_options(settings_));
  if (world_.size() == 1 && reducer_->chunks().count() == 1 && compute_.memory().is_host())
    squares_.resize(table().trained_ends().size());
  synchronize_batch_norm();
}

// On the host the reducer uses its communicator at the same time. NCCL runs the operations of one
// communicator in the order of their calls, which is that of the layers on every rank, and several at once
// could wait for each other's room on the GPUs.
void Replica::synchronize_batch_norm() {
  if (!settings_.sync_batch_norm || world_.size() == 1) return;
  const Stream stream = compute_.stream();
  model_->synchronize_batch_norm(
      [ranks = stream ? world_ : world_.split(0, 0), stream](std::span<double> values) mutable {
        ranks.all_reduce(values, Reduction::sum, stream);
      });
}

Share Replica::chunk_samples(std::uint64_t first, std::uint64_t chunk) const {
  const auto batch = static_cast<std::uint64_t>(settings_.batch);
  const auto size = static_cast<std::uint64_t>(settings_.chunk);
  const Share share = size == 0 ? share_of(batch, static_cast<int>(chunk), world_.size())
                                : Share{chunk * size, std::min((chunk + 1) * size, batch)};
  return {first + share.begin, first + share.end};
}

// The error is sent to all ranks with this step, and its result is dropped then.
void Replica::load_samples(const Share& samples, StepResult& result) {
  const auto from = std::chrono::steady_clock::now();
  try {
    model_->load_samples(samples.begin, samples.count());
  } catch (const Error& error) {
    if (!result.error) result.error = error;
  }
  result.loading += std::chrono::duration<double>(std::chrono::steady_clock::now() - from).count();
}

void Replica::prefetch(std::uint64_t first_sample) {
  std::vector<Share> samples;
  const Share mine = reducer_->chunks();
  const int stride = settings_.sample_stride > 0 ? settings_.sample_stride : settings_.batch;
  for (const std::uint64_t first : {first_sample, first_sample + static_cast<std::uint64_t>(stride)}) {
    for (std::uint64_t chunk = mine.begin; chunk < mine.end; ++chunk)
      samples.push_back(chunk_samples(first, chunk));
  }
  model_->prefetch(samples);
}

void Replica::compute_micro_batch(const Share& samples, std::uint64_t begin, bool last) {
  // With gradients scaled by the global count, the sums of chunks and micro-batches add up to the mean over
  // the global batch, for any sizes.
  const double scale = 1.0 / static_cast<double>(predictions_per_step());
  const bool first = samples.begin == begin;
  const Stream stream = compute_.stream();
  compute_.accumulate_loss(!first);
  model_->gradients(static_cast<float>(scale), [&](std::size_t tensor) {
    const auto gradient = reducer_->gradient(tensor + 1);
    if (!first || !last) {
      float* const sum = micro_batch_sums_.data() + table().tensors[tensor].offset;
      if (!last) return compute_.accumulate(gradient.data(), sum, gradient.size(), first);
      compute_.accumulate(sum, gradient.data(), gradient.size(), false);
    }
    compute_.check_finite(gradient.data(), gradient.size(), table().tensors[tensor].offset,
                          tensor < squares_.size() ? &squares_[tensor] : nullptr);
    reducer_->ready(tensor + 1, stream);
  });
  compute_.accumulate_loss(false);
}

// Passes the chunk's gradients and scalars to the reducer, which starts to reduce them at once.
void Replica::compute_chunk(std::uint64_t chunk, const StepFlags& flags) {
  const Share samples = chunk_samples(begun_.first_sample, chunk);
  const auto at_once = samples_at_once(settings_, world_.rank(), world_.size());
  for (std::uint64_t begin = samples.begin; begin < samples.end; begin += at_once) {
    const Share part{begin, std::min(begin + at_once, samples.end)};
    load_samples(part, begun_.result);
    compute_micro_batch(part, samples.begin, part.end == samples.end);
  }
  compute_.end_chunk(chunk - reducer_->chunks().begin, 1.0 / static_cast<double>(predictions_per_step()),
                     flags.stop, flags.failed || begun_.result.error, reducer_->gradient(0).data());
  reducer_->ready(0, compute_.stream());
}

void Replica::rehearse(std::int64_t first_sample) {
  const Share samples =
      chunk_samples(static_cast<std::uint64_t>(first_sample), static_cast<std::uint64_t>(world_.rank()));
  model_->load_samples(samples.begin,
                       std::min(samples.count(), samples_at_once(settings_, world_.rank(), world_.size())));
  model_->gradients(static_cast<float>(1.0 / static_cast<double>(predictions_per_step())),
                    [](std::size_t) {});
  compute_.wait();
}

void Replica::begin_step(std::int64_t number, std::int64_t first_sample, double learning_rate,
                         const StepFlags& flags) {
  if (!reducer_) create_reducer();
  begun_ = {++reduced_steps_, static_cast<std::uint64_t>(first_sample), number, learning_rate, {}};
  const Share mine = reducer_->chunks();
  prefetch(begun_.first_sample);
  compute_.begin_step(mine.count(), micro_batches(settings_, world_.rank(), world_.size()));
  for (std::uint64_t chunk = mine.begin; chunk < mine.end; ++chunk) compute_chunk(chunk, flags);
  reducer_->finish(compute_.stream());
  const auto norm = decide();
  const bool waits = settings_.update_after_reduction && compute_.stream() != nullptr;
  if (waits) world_.synchronize(compute_.stream());
  update(norm);
  // With copies also without an update: a rank that begins the next step knows then that no other rank still
  // needs the gradients of this one (update_with_gradients()).
  if (norm || copy_) exchange_parts(in_flight_.back().result);
  if (waits && sharded()) world_.synchronize(compute_.stream());
}

std::optional<double> Replica::decide() {
  if (!squares_.empty())
    return compute_.decide_from_squares(model_->tensors().reduced().data(), squares_,
                                        settings_.optimizer.clip);
  const auto gradients = model_->tensors().gradients();
  return compute_.decide(model_->tensors().reduced().data(), gradients.data(), norm_ends(),
                         settings_.optimizer.clip);
}

void Replica::update(const std::optional<double>& norm) {
  models::ModelTensors<float>& tensors = model_->tensors();
  if (norm) {
    optimizer_.update(tensors.parameters(), tensors.gradients(), *norm, begun_.learning_rate, begun_.update,
                      tensors.rounded());
    tensors.update_statistics(compute_, optimizer_.part());
    if (copy_) copy_->update(tensors, *norm, begun_.learning_rate, begun_.update);
  }
  compute_.end_step();
  in_flight_.push_back(std::move(begun_));
}

// A GPU needs two kernels for each part, so without --deterministic, where no other strategy has to reach the
// same norm, all tensors are one.
std::vector<std::size_t> Replica::norm_ends() const {
  std::vector<std::size_t> ends = table().trained_ends();
  if (settings_.on_device && settings_.chunk == 0) ends = {ends.back()};
  return ends;
}

StepResult Replica::end_step() {
  // Here the host waits for a device, which has the next step queued by then. A step that is reduced already
  // needs no other rank any more, and its result stays known after the loss of a rank.
  if (compute_.stream() != nullptr && !settings_.update_after_reduction)
    world_.synchronize(compute_.outcome_stream());
  const compute::StepOutcome outcome = compute_.outcome();
  const InFlightStep step = std::move(in_flight_.front());
  in_flight_.pop_front();
  StepResult result = step.result;
  result.loss = outcome.loss;
  result.gradient_norm = outcome.gradient_norm;
  result.finite = outcome.finite;
  result.any_stop = outcome.any_stop;
  result.any_failed = outcome.any_failed;
  if (!reducer_) return result;  // after update_with_gradients()
  if (const auto reduced = reducer_->step(step.number)) {
    result.exposed += reduced->exposed;
    result.communication += reduced->communication;
    result.gradient_bytes = reduced->bytes;
  }
  const Share mine = reducer_->chunks();
  for (std::uint64_t chunk = mine.begin; chunk < mine.end; ++chunk) {
    if (outcome.chunk_is_finite[chunk - mine.begin]) continue;
    const Share samples = chunk_samples(step.first_sample, chunk);
    if (result.non_finite_samples.count() == 0) result.non_finite_samples.begin = samples.begin;
    result.non_finite_samples.end = samples.end;
  }
  return result;
}

// Gathers the parameters, if the state is sharded.
void Replica::exchange_parts(StepResult& result) {
  if (!sharded()) return;
  const auto from = std::chrono::steady_clock::now();
  std::vector<std::size_t> counts;
  for (int rank = 0; rank < world_.size(); ++rank) counts.push_back(rank_part(rank).count());
  const std::span<float> all = model_->tensors().parameters();
  const Share& own = optimizer_.part();
  world_.all_gather_v(all.subspan(own.begin, own.count()), all, counts, compute_.stream());
  model_->tensors().round_parameters(compute_);
  result.gathered_bytes = all.size_bytes();
  if (compute_.stream() != nullptr) return;  // the gather has only been queued, so it cannot be timed here
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - from).count();
  result.exposed += seconds;
  result.communication += seconds;
}

void Replica::all_reduce_validation(Validation& validation) { average_over_ranks(host_, validation); }

Share Replica::rank_part(int rank) const {
  const std::size_t size = model_->tensors().table().arena_size;
  return sharded() ? optimizer_part(size, rank, world_.size()) : Share{0, size};
}

void Replica::broadcast() {
  world_.broadcast(model_->tensors().parameters(), 0, compute_.stream());
  model_->tensors().round_parameters(compute_);
  if (copy_) copy_->keep_parameters(model_->tensors().parameters());
}

// The moments that the optimizer has.
std::vector<std::pair<std::span<float>, std::span<float>>> Replica::pair_moments(
    const TrainingTensors& from, const TrainingTensors& to) const {
  std::vector<std::pair<std::span<float>, std::span<float>>> pairs{{from.moment1, to.moment1},
                                                                   {from.moment2, to.moment2}};
  pairs.resize(Optimizer<float>::moment_count(settings_.optimizer.kind));
  return pairs;
}

// Checkpoints are unsharded, so that any number of ranks can resume.
void Replica::scatter_state(const TrainingTensors& whole) {
  const TrainingTensors own = tensors();
  compute::Memory& memory = compute_.memory();
  if (world_.rank() == 0)
    memory.copy_in(own.parameters.data(), whole.parameters.data(), own.parameters.size_bytes());
  broadcast();
  const auto own_part = [this](int rank) { return rank_part(rank); };
  for (const auto& [from, to] : pair_moments(whole, own)) {
    if (sharded()) {
      scatter_parts(from, to, own_part);
      continue;
    }
    if (world_.rank() == 0) memory.copy_in(to.data(), from.data(), to.size_bytes());
    world_.broadcast(to, 0, compute_.stream());
  }
  if (!copy_) return;
  const auto copied_part = [this](int rank) {
    return rank_part(copied_ranks_[static_cast<std::size_t>(rank)]);
  };
  for (const auto& [from, to] : pair_moments(whole, copy_->moments())) scatter_parts(from, to, copied_part);
}

void Replica::scatter_parts(std::span<const float> from, std::span<float> to,
                            const std::function<Share(int rank)>& part) {
  compute::Memory& memory = compute_.memory();
  if (world_.rank() != 0) return receive_into(memory, to, host_, 0);
  memory.copy_in(to.data(), from.data() + part(0).begin, to.size_bytes());
  for (int rank = 1; rank < world_.size(); ++rank)
    host_.send(from.subspan(part(rank).begin, part(rank).count()), rank);
}

void Replica::gather_state(const TrainingTensors& whole) {
  if (world_.rank() == 0) copy_own(whole);
  if (!sharded()) return;
  for (const auto& [from, to] : pair_moments(tensors(), whole)) {
    if (world_.rank() != 0) send_from(compute_.memory(), from, host_, 0);
    for (int rank = 1; world_.rank() == 0 && rank < world_.size(); ++rank) {
      const Share part = rank_part(rank);
      host_.recv(to.subspan(part.begin, part.count()), rank);
    }
  }
}

// The parameters and the moments that this rank has.
void Replica::copy_own(const TrainingTensors& whole) {
  const TrainingTensors own = tensors();
  compute::Memory& memory = compute_.memory();
  memory.copy_out(whole.parameters.data(), own.parameters.data(), own.parameters.size_bytes());
  for (const auto& [from, to] : pair_moments(own, whole))
    memory.copy_out(to.data() + optimizer_.part().begin, from.data(), from.size_bytes());
}

std::optional<StateParts> Replica::copy_state(const TrainingTensors& whole, std::int64_t step) {
  if (sharded() && !copy_) return std::nullopt;
  copy_own(whole);
  StateParts copied{step, {optimizer_.part()}};
  if (!copy_) return copied;
  // The exchange that a loss interrupted leaves the parameters of other parts unspecified.
  copy_->copy_out(model_->tensors().parameters(), whole);
  copied.parts.push_back(copy_->part());
  return copied;
}

void Replica::send_gradients(Communicator& left, int to) {
  send_from(compute_.memory(), model_->tensors().reduced(), left, to);
}

void Replica::update_with_gradients(Communicator& left, int from) {
  reducer_.reset();  // nothing else may write the gradients
  squares_.clear();
  receive_into(compute_.memory(), model_->tensors().reduced(), left, from);
  update(decide());
}

std::uint64_t Replica::parameter_hash() {
  const compute::HostCopy parameters(model_->tensors().parameters(), compute_.memory());
  return hash_bytes(parameters.values().data(), parameters.values().size_bytes());
}

}  // namespace muster
