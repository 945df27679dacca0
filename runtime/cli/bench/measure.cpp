// SPDX-License-Identifier: Apache-2.0
#include "bench/measure.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <type_traits>

namespace muster::cli::bench {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::array types{DataType::float32, DataType::float64, DataType::bfloat16, DataType::float16,
                           DataType::int8,    DataType::uint8,   DataType::int32,    DataType::uint32,
                           DataType::int64,   DataType::uint64};

double seconds_since(Clock::time_point since) {
  return std::chrono::duration<double>(Clock::now() - since).count();
}

template <typename Call>
void with_type(DataType type, Call call) {
  switch (type) {
    case DataType::float32:
      return call(float{});
    case DataType::float64:
      return call(double{});
    case DataType::bfloat16:
      return call(bfloat16{});
    case DataType::float16:
      return call(half{});
    case DataType::int8:
      return call(std::int8_t{});
    case DataType::uint8:
      return call(std::uint8_t{});
    case DataType::int32:
      return call(std::int32_t{});
    case DataType::uint32:
      return call(std::uint32_t{});
    case DataType::int64:
      return call(std::int64_t{});
    case DataType::uint64:
      return call(std::uint64_t{});
  }
}

template <typename T>
T number(long value) {
  if constexpr (std::is_same_v<T, bfloat16> || std::is_same_v<T, half>) {
    return T(static_cast<float>(value));
  } else {
    return static_cast<T>(value);  // integers wrap around, as their sums do
  }
}

template <typename T>
bool same(T got, T expected, int ranks) {
  if constexpr (std::is_same_v<T, bfloat16> || std::is_same_v<T, half>) {
    auto const wanted = static_cast<float>(expected);
    // Sums of 0 and 1 are exact up to 256 ranks in bfloat16 and 2048 in half; above that each step may round.
    float const room = ranks <= 256 ? 0.0f : wanted / 16;
    return std::abs(static_cast<float>(got) - wanted) <= room;
  } else {
    return got == expected;
  }
}

// Element i of rank r's input, counted over all of its shares. For reductions it is 0 or 1, so that sums stay
// exact in 16 bits; else up to 126, which fits every type and distinguishes 127 ranks.
long input(Operation operation, int rank, std::size_t i) {
  return static_cast<long>((i / 3 + i / 7 + static_cast<std::size_t>(rank)) %
                           (is_reduction(operation) ? 2 : 127));
}

// Sum over all ranks: every second rank has a 1.
long sum_of_inputs(Operation operation, int ranks, std::size_t i) {
  return input(operation, 0, i) == 1 ? (ranks + 1) / 2 : ranks / 2;
}

bool in_place(Operation operation) {
  return operation == Operation::all_reduce || operation == Operation::broadcast ||
         operation == Operation::reduce;
}

// True when every rank has a share of the data.
bool has_shares(Operation operation) {
  return operation == Operation::all_gather || operation == Operation::reduce_scatter ||
         operation == Operation::all_to_all;
}

// send_recv is a ring, as in nccl-tests: every rank sends to the next and receives from the previous one.
int next_in_ring(int rank, int ranks) { return (rank + 1) % ranks; }
int previous_in_ring(int rank, int ranks) { return (rank + ranks - 1) % ranks; }

// Element i of the result of `rank`; `count` as Meter::count_for().
long expected(Operation operation, int rank, int ranks, std::size_t count, std::size_t i) {
  auto const own = static_cast<std::size_t>(rank) * count;
  auto const from = static_cast<int>(i / count);
  switch (operation) {
    case Operation::all_reduce:
      return sum_of_inputs(operation, ranks, i);
    case Operation::reduce:
      return rank == 0 ? sum_of_inputs(operation, ranks, i) : input(operation, rank, i);
    case Operation::broadcast:
      return input(operation, 0, i);
    case Operation::reduce_scatter:
      return sum_of_inputs(operation, ranks, own + i);
    case Operation::all_gather:
      return input(operation, from, i % count);
    case Operation::all_to_all:
      return input(operation, from, own + i % count);
    case Operation::send_recv:
      return input(operation, previous_in_ring(rank, ranks), i);
  }
  return 0;
}

}  // namespace

std::optional<DataType> parse_type(std::string_view name) {
  for (DataType const type : types)
    if (name == muster::name_of(type)) return type;
  return std::nullopt;
}

std::vector<std::string> type_names() {
  std::vector<std::string> names;
  for (DataType const type : types) names.emplace_back(muster::name_of(type));
  return names;
}

Meter::Meter(Communicator world, const Plan& plan, std::size_t most) : world_(std::move(world)), plan_(plan) {
  if (plan.operation == Operation::send_recv && world_.size() == 1) {
    throw Error(
        ErrorCode::usage,
        "bench: send_recv needs two ranks at least: start it with srun -n2 --mpi=pmix or mpirun -n 2");
  }
  auto const room = std::max(most, size_of(plan.type) * static_cast<std::size_t>(world_.size()));
  auto const make = [&] { return plan.gpu ? gpu_memory(room) : host_memory(room); };
  in_ = make();
  if (!in_place(plan.operation)) out_ = make();
}

// Number of elements of one rank's share, or of the whole buffer when there are no shares.
std::size_t Meter::count_for(std::size_t bytes) const {
  auto const shares = has_shares(plan_.operation) ? static_cast<std::size_t>(world_.size()) : 1;
  return std::max<std::size_t>(1, bytes / size_of(plan_.type) / shares);
}

void Meter::run(std::size_t count) {
  with_type(plan_.type, [&](auto zero) {
    using T = decltype(zero);
    auto* const in = static_cast<T*>(in_->data());
    auto* const out = out_ ? static_cast<T*>(out_->data()) : nullptr;
    auto const all = count * static_cast<std::size_t>(world_.size());
    switch (plan_.operation) {
      case Operation::all_reduce:
        return world_.all_reduce(std::span<T>(in, count));
      case Operation::broadcast:
        return world_.broadcast(std::span<T>(in, count), 0);
      case Operation::reduce:
        return world_.reduce(std::span<T>(in, count), 0);
      case Operation::all_gather:
        return world_.all_gather(std::span<const T>(in, count), std::span<T>(out, all));
      case Operation::reduce_scatter:
        return world_.reduce_scatter(std::span<const T>(in, all), std::span<T>(out, count));
      case Operation::all_to_all:
        return world_.all_to_all(std::span<const T>(in, all), std::span<T>(out, all));
      case Operation::send_recv:
        return world_.grouped([&] {
          world_.send(std::span<const T>(in, count), next_in_ring(world_.rank(), world_.size()));
          world_.recv(std::span<T>(out, count), previous_in_ring(world_.rank(), world_.size()));
        });
    }
  });
}

Sample Meter::measure(std::size_t bytes) {
  Sample sample;
  sample.elements = count_for(bytes);
  auto const shares = has_shares(plan_.operation) ? static_cast<std::size_t>(world_.size()) : 1;
  sample.bytes = sample.elements * shares * size_of(plan_.type);
  for (int i = 0; i < plan_.warmup; ++i) run(sample.elements);
  world_.synchronize();
  world_.barrier();
  auto const begin = Clock::now();
  for (int i = 0; i < plan_.iterations; ++i) run(sample.elements);
  world_.synchronize();
  sample.average = seconds_since(begin) / plan_.iterations;
  std::vector<double> seconds;
  for (int i = 0; i < plan_.iterations; ++i) {
    auto const since = Clock::now();
    run(sample.elements);
    world_.synchronize();
    seconds.push_back(seconds_since(since));
  }
  sample.single = summarize(std::move(seconds));
  if (plan_.check) sample.wrong = wrong(sample.elements);
  return sample;
}

std::size_t Meter::wrong(std::size_t count) {
  std::size_t bad = 0;
  with_type(plan_.type, [&](auto zero) {
    using T = decltype(zero);
    int const ranks = world_.size();
    int const rank = world_.rank();
    auto const all = count * static_cast<std::size_t>(ranks);
    auto const shares_in = has_shares(plan_.operation) && plan_.operation != Operation::all_gather;
    std::vector<T> data(shares_in ? all : count);
    for (std::size_t i = 0; i < data.size(); ++i) data[i] = number<T>(input(plan_.operation, rank, i));
    in_->write(data.data(), data.size() * sizeof(T));
    run(count);
    world_.synchronize();
    bool const whole = plan_.operation == Operation::all_gather || plan_.operation == Operation::all_to_all;
    data.resize(whole ? all : count);
    (out_ ? *out_ : *in_).read(data.data(), data.size() * sizeof(T));
    for (std::size_t i = 0; i < data.size(); ++i) {
      if (!same(data[i], number<T>(expected(plan_.operation, rank, ranks, count, i)), ranks)) ++bad;
    }
    std::fill(data.begin(), data.end(), T{});
    data.resize(shares_in ? all : count);
    in_->write(data.data(), data.size() * sizeof(T));  // zeros again for the timed operations
  });
  return bad;
}

}  // namespace muster::cli::bench
