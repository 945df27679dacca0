// SPDX-License-Identifier: Apache-2.0
#include "muster/reducer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "communicator/backend.hpp"
#include "communicator/nccl/comm_stream.hpp"
#include "log.hpp"
#include "reducer/bucket_queue.hpp"
#include "reducer/bucket_size_agreement.hpp"
#include "reducer/gpu_kernels.hpp"
#include "reducer/reduction.hpp"

namespace muster {

using detail::Bucket;
using detail::CommStream;
using detail::CommunicatorBackend;
using detail::GradientLayout;

struct Reducer::State {
  State(const std::shared_ptr<CommunicatorBackend>& world, const ReducerOptions& options);
  void use_memory(std::vector<std::span<std::byte>> gradients);
  void check_options() const;
  void set_up(std::span<const std::size_t> sizes);
  void allocate(std::span<const std::size_t> sizes);
  void begin_chunk();
  void end_chunk();
  void complete(std::size_t bucket);
  void require_parameter(std::size_t parameter) const;
  std::size_t first_not_ready() const;
  // By an all-reduce of the communicator, without kernels.
  bool is_plain() const { return !options.bfloat16 && options.chunks == 0; }

  ReducerOptions options;
  std::shared_ptr<CommunicatorBackend> comm;
  std::shared_ptr<CommStream> comm_stream;  // on GPU memory only
  std::shared_ptr<GradientLayout> layout = std::make_shared<GradientLayout>();
  Share chunks;
  std::size_t bucket_bytes = 0;

  // Progress of the step.
  std::uint64_t chunk = 0;  // number of this rank's complete chunks
  std::vector<bool> ready;  // by parameter
  std::size_t ready_count = 0;
  std::vector<std::size_t> bucket_index;     // by parameter
  std::vector<std::size_t> not_ready;        // number of parameters, by bucket
  std::vector<std::vector<Stream>> streams;  // of the ready gradients, by bucket
  std::vector<Stream> all_streams;
  std::vector<bool> complete_buckets;  // complete for all chunks, by bucket
  std::size_t started = 0;             // buckets

  std::unique_ptr<detail::BucketQueue> queue;  // last member: its thread uses the others
};

Reducer::State::State(const std::shared_ptr<CommunicatorBackend>& world, const ReducerOptions& requested)
    : options(requested) {
  check_options();
  if (options.type == DataType::bfloat16) options.bfloat16 = true;
  layout->type = options.type;
  bool const on_gpu = std::string(world->backend()) == "nccl";
  if (on_gpu && !is_plain() && detail::gpu_kernels() == nullptr) {
    throw Error(
        ErrorCode::usage,
        fmt::format("reducer: {} on GPU memory needs kernels, and this Muster was built without nvcc: "
                    "build it where nvcc is (`muster check-build` shows it), or use the job's host_world()",
                    options.bfloat16 ? "bfloat16" : "the deterministic mode (chunks)"));
  }
  comm = world->split(0, 0);
  chunks = options.chunks > 0 ? share_of(options.chunks, comm->rank(), comm->size())
                              : Share{static_cast<std::uint64_t>(comm->rank()),
                                      static_cast<std::uint64_t>(comm->rank()) + 1};
  if (on_gpu) comm_stream = comm->make_stream();
  if (on_gpu && !is_plain()) comm_stream->load_kernels(detail::gpu_kernels(), detail::gpu_kernel_names);
}

void Reducer::State::use_memory(std::vector<std::span<std::byte>> gradients) {
  std::vector<std::size_t> sizes;
  for (const auto& gradient : gradients) sizes.push_back(gradient.size() / size_of(options.type));
  layout->gradients = std::move(gradients);
  set_up(sizes);
}

void Reducer::State::check_options() const {
  auto const require = [](bool holds, const std::string& text) {
    if (!holds) throw Error(ErrorCode::usage, "reducer: " + text);
  };
  require(options.reduction == Reduction::sum || options.reduction == Reduction::average,
          "gradients can be summed or averaged only");
  require(options.chunks == 0 || !options.bfloat16,
          "bfloat16 rounds each rank's data, so the result depends on the number of ranks: use either "
          "bfloat16 or the deterministic mode (chunks)");
  auto const type = options.type;
  require(type == DataType::float32 || type == DataType::float64 || type == DataType::bfloat16,
          fmt::format("gradients are float32, float64 or bfloat16, not {}", name_of(type)));
  require(
      options.chunks == 0 || type == DataType::float32,
      fmt::format("the deterministic mode (chunks) adds float32 gradients, and these are {}: convert them",
                  name_of(type)));
  require(!options.bfloat16 || type != DataType::float64,
          "float64 gradients are not sent as bfloat16: leave bfloat16 out, or use float32 gradients");
}

// layout->gradients has the program's gradients, or is empty if the reducer is to allocate them.
void Reducer::State::set_up(std::span<const std::size_t> sizes) {
  bucket_bytes = detail::agree_on_bucket_bytes(*comm, comm_stream.get(), sizes, options);
  bool const own_memory = layout->gradients.empty();
  if (own_memory) allocate(sizes);
  layout->buckets = detail::make_buckets(layout->gradients, bucket_bytes, size_of(options.type));
  bucket_index.resize(sizes.size());
  for (std::size_t b = 0; b < layout->buckets.size(); ++b) {
    const Bucket& bucket = layout->buckets[b];
    for (std::size_t i = bucket.first; i < bucket.last; ++i) bucket_index[i] = b;
    if (comm_stream && is_plain() && !bucket.memory.empty() && !own_memory)
      comm_stream->register_memory(bucket.memory.data(), bucket.memory.size());
  }
  complete_buckets.assign(layout->buckets.size(), false);
  begin_chunk();
  queue = comm_stream ? detail::make_gpu_queue(comm, comm_stream, layout, options)
                      : detail::make_host_queue(comm, layout, options);
  log::debug("reducer: {} parameters in {} buckets of {} bytes", sizes.size(), layout->buckets.size(),
             bucket_bytes);
}

void Reducer::State::allocate(std::span<const std::size_t> sizes) {
  auto const element = size_of(options.type);
  auto const total = std::accumulate(sizes.begin(), sizes.end(), std::size_t{0}) * element;
  std::byte* next = nullptr;
  if (comm_stream) {
    auto const all_agree = [this](bool mine) {
      if (comm->size() == 1) return false;
      auto const all = comm->host_all_gather("reducer's memory", {std::uint64_t{mine}});
      return std::ranges::all_of(all, [](const auto& theirs) { return theirs.at(0) == 1; });
    };
    // In the other modes NCCL sends copies of the gradients.
    auto const bytes = std::max(element, total);
    next = static_cast<std::byte*>(is_plain() ? comm_stream->allocate_symmetric(bytes, all_agree)
                                              : comm_stream->allocate(bytes));
    comm->synchronize(
        comm_stream->stream());  // zero the memory before the program writes to it on its streams
  } else {
    layout->memory.resize(total);
    next = layout->memory.data();
  }
  for (auto const size : sizes) {
    layout->gradients.emplace_back(next, size * element);
    next += size * element;
  }
}

void Reducer::State::end_chunk() {
  ++chunk;
  if (chunk >= chunks.count()) return;
  // The next chunk overwrites the gradients that are being added.
  for (Stream const stream : all_streams) queue->block(stream);
  begin_chunk();
}

void Reducer::State::begin_chunk() {
  ready.assign(layout->gradients.size(), false);
  ready_count = 0;
  not_ready.clear();
  for (const Bucket& bucket : layout->buckets) not_ready.push_back(bucket.last - bucket.first);
  streams.resize(layout->buckets.size());
  for (auto& bucket_streams : streams) bucket_streams.clear();
  all_streams.clear();
}

void Reducer::State::complete(std::size_t bucket) {
  for (Stream const stream : streams[bucket]) queue->wait_for(stream);
  queue->add_chunk(bucket);
  if (chunk + 1 < chunks.count()) return;
  complete_buckets[bucket] = true;
  while (started < layout->buckets.size() && complete_buckets[started]) queue->start(started++);
}

void Reducer::State::require_parameter(std::size_t parameter) const {
  auto const parameters = layout->gradients.size();
  if (parameter < parameters) return;
  throw Error(ErrorCode::usage,
              fmt::format("reducer: parameter {} is not in 0 … {}", parameter, parameters - 1));
}

std::size_t Reducer::State::first_not_ready() const {
  return static_cast<std::size_t>(std::find(ready.begin(), ready.end(), false) - ready.begin());
}

namespace {

template <typename T>
std::vector<std::span<std::byte>> to_bytes(std::span<const std::span<T>> gradients) {
  std::vector<std::span<std::byte>> bytes;
  for (const auto& gradient : gradients) bytes.push_back(std::as_writable_bytes(gradient));
  return bytes;
}

ReducerOptions with_type(ReducerOptions options, DataType type) {
  options.type = type;
  return options;
}

void add_once(std::vector<Stream>& streams, Stream stream) {
  if (std::find(streams.begin(), streams.end(), stream) == streams.end()) streams.push_back(stream);
}

}  // namespace

Reducer::Reducer(const Communicator& world, std::span<const std::size_t> sizes, const ReducerOptions& options)
    : state_(std::make_unique<State>(world.collectives_, options)) {
  state_->set_up(sizes);
}

Reducer::Reducer(const Communicator& world, std::span<const std::span<float>> gradients,
                 const ReducerOptions& options)
    : state_(std::make_unique<State>(world.collectives_, with_type(options, DataType::float32))) {
  state_->use_memory(to_bytes(gradients));
}
Reducer::Reducer(const Communicator& world, std::span<const std::span<double>> gradients,
                 const ReducerOptions& options)
    : state_(std::make_unique<State>(world.collectives_, with_type(options, DataType::float64))) {
  state_->use_memory(to_bytes(gradients));
}
Reducer::Reducer(const Communicator& world, std::span<const std::span<bfloat16>> gradients,
                 const ReducerOptions& options)
    : state_(std::make_unique<State>(world.collectives_, with_type(options, DataType::bfloat16))) {
  state_->use_memory(to_bytes(gradients));
}

std::size_t Reducer::memory_bytes(std::span<const std::size_t> sizes, const ReducerOptions& options, int rank,
                                  int ranks) {
  if (options.chunks == 0) return 0;
  auto const buckets = detail::cut_buckets(sizes, options.bucket_bytes, sizeof(float));
  return detail::tree_reduction_bytes(buckets, options.chunks, rank, ranks);
}

Reducer::~Reducer() = default;
Reducer::Reducer(Reducer&&) noexcept = default;

std::span<std::byte> Reducer::gradient_bytes(std::size_t parameter) const {
  state_->require_parameter(parameter);
  return state_->layout->gradients[parameter];
}
void Reducer::require_type(DataType type) const {
  if (type == state_->options.type) return;
  throw Error(ErrorCode::usage, fmt::format("reducer: the gradients are {}, not {}",
                                            name_of(state_->options.type), name_of(type)));
}
DataType Reducer::type() const noexcept { return state_->options.type; }
std::size_t Reducer::parameters() const noexcept { return state_->layout->gradients.size(); }
Share Reducer::chunks() const noexcept { return state_->chunks; }
std::size_t Reducer::buckets() const noexcept { return state_->layout->buckets.size(); }
std::size_t Reducer::bucket_bytes() const noexcept { return state_->bucket_bytes; }
ReducerStatistics Reducer::last_step() const { return state_->queue->last_step(); }
std::optional<ReducerStatistics> Reducer::step(std::uint64_t number) const {
  return state_->queue->statistics(number);
}

void Reducer::ready(std::size_t parameter, Stream stream) {
  auto& s = *state_;
  s.require_parameter(parameter);
  if (s.chunk >= s.chunks.count() || s.ready[parameter])
    throw Error(ErrorCode::usage,
                fmt::format("reducer: parameter {} is ready already: call finish() at the end "
                            "of each step",
                            parameter));
  s.ready[parameter] = true;
  ++s.ready_count;
  auto const bucket = s.bucket_index[parameter];
  add_once(s.streams[bucket], stream);
  add_once(s.all_streams, stream);
  if (--s.not_ready[bucket] == 0) s.complete(bucket);
  if (s.ready_count == s.ready.size()) s.end_chunk();
}

void Reducer::finish(Stream stream) {
  auto& s = *state_;
  if (s.chunk < s.chunks.count()) {
    throw Error(ErrorCode::usage,
                fmt::format("reducer: parameter {} is not ready in chunk {}: make each one ready before "
                            "finish()",
                            s.first_not_ready(), s.chunks.begin + s.chunk));
  }
  // A rank without chunks takes part in the reductions too.
  if (s.started < s.layout->buckets.size()) s.queue->wait_for(stream);
  while (s.started < s.layout->buckets.size()) s.queue->start(s.started++);
  s.queue->finish(stream);
  s.chunk = 0;
  s.started = 0;
  s.complete_buckets.assign(s.layout->buckets.size(), false);
  s.begin_chunk();
}

}  // namespace muster
