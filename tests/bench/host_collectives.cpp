// SPDX-License-Identifier: Apache-2.0
// Compares the host communicator's collectives with Open MPI's blocking ones on MPI_COMM_WORLD: mpirun -n N
// bench_host_collectives [SECONDS [MOST_BYTES [OPERATION…]]]. Both run alternately in one process on the same
// buffers, for SECONDS (0.5) at each size up to MOST_BYTES (256 MiB). OPERATION: all_reduce (default),
// broadcast, reduce, all_gather, reduce_scatter or all_to_all, followed by options, each after a colon, in
// any order:
//   float32, float64, bfloat16     the type (default float32; a plain all_reduce also runs in bfloat16)
//   sum, max, min, product         for all_reduce, reduce and reduce_scatter (default sum)
//   apart                          all_reduce into another buffer (default, and reduce always: in place)
// for example all_reduce:apart, all_reduce:float64:max. Prints medians of the slowest rank's time, bus
// bandwidth and bytes as nccl-tests defines them, and the median of the pairs' ratios ours / raw with its 95%
// confidence interval (order statistics of the median). Exit code 1 when ours is slower by more than 2% at
// any size beyond that noise: the interval's lower end is above 1.02.
#include <mpi.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include "host_operations.hpp"
#include "muster/muster.hpp"

using namespace muster;
using namespace host_operations;
using Clock = std::chrono::steady_clock;

namespace {

constexpr double tolerance = 1.02;
constexpr int min_pairs = 11;
constexpr int max_pairs = 301;
// The minimum duration of a sample: many calls of a short all-reduce.
constexpr double sample_us = 100;

// One collective at one size, by Muster and by Open MPI.
struct Calls {
  double bytes;
  double factor;  // of the bus bandwidth
  std::function<void()> ours;
  std::function<void()> raw;
};

template <typename Call>
double time_us(int calls, Call call) {
  MPI_Barrier(MPI_COMM_WORLD);
  auto const begin = Clock::now();
  for (int i = 0; i < calls; ++i) call();
  double us = std::chrono::duration<double, std::micro>(Clock::now() - begin).count() / calls;
  MPI_Allreduce(MPI_IN_PLACE, &us, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  return us;
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

struct Interval {
  double low;
  double middle;
  double high;
};

// The normal approximation of the binomial distribution gives the ranks of the interval's ends.
Interval median_interval(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  auto const count = static_cast<double>(values.size());
  auto const reach = 1.96 * std::sqrt(count) / 2;
  auto const low = static_cast<std::size_t>(std::max(0.0, std::floor(count / 2 - reach)));
  auto const high = static_cast<std::size_t>(std::min(count - 1, std::ceil(count / 2 + reach)));
  return {values[low], values[values.size() / 2], values[high]};
}

// Measures one size, prints its line, and returns whether ours is slower.
bool compare(Communicator& world, const std::string& what, const Calls& both, double seconds) {
  time_us(3, both.ours);
  double const once = std::max(time_us(3, both.raw), 0.01);
  int const calls = std::clamp(static_cast<int>(sample_us / once), 1, 2000);
  int const pairs = std::clamp(static_cast<int>(seconds * 1e6 / (2 * once * calls)), min_pairs, max_pairs);
  std::vector<double> of_raw;
  std::vector<double> of_ours;
  std::vector<double> ratios;
  for (int i = 0; i < pairs; ++i) {
    bool const raw_first = i % 2 == 0;
    if (raw_first) of_raw.push_back(time_us(calls, both.raw));
    of_ours.push_back(time_us(calls, both.ours));
    if (!raw_first) of_raw.push_back(time_us(calls, both.raw));
    ratios.push_back(of_ours.back() / of_raw.back());
  }
  auto const ratio = median_interval(ratios);
  bool const slower = ratio.low > tolerance;
  if (world.rank() == 0) {
    double const raw_us = median(of_raw);
    double const ours_us = median(of_ours);
    std::printf("%-23s %10.0f %12.3f %12.3f %9.3f %9.3f %7.3f  %.3f-%.3f %5d%s\n", what.c_str(), both.bytes,
                raw_us, ours_us, both.bytes / raw_us / 1e3 * both.factor,
                both.bytes / ours_us / 1e3 * both.factor, ratio.middle, ratio.low, ratio.high, pairs,
                slower ? "  SLOWER" : "");
    std::fflush(stdout);
  }
  return slower;
}

// If ranks have shares, `bytes` counts all shares together.
template <typename T>
Calls make_calls(Communicator& world, const Operation& operation, std::span<T> memory, std::span<T> other,
                 const Raw& raw, std::size_t bytes) {
  auto const& name = operation.name;
  auto const op = operation.reduction;
  auto const ranks = static_cast<std::size_t>(world.size());
  std::span<T> const whole = memory.first(bytes / sizeof(T));
  auto const share = whole.size() / ranks;
  std::span<const T> const shares = whole.first(share * ranks);
  std::span<T> const results = other.first(share * ranks);
  auto const all = static_cast<int>(whole.size());
  auto const part = static_cast<int>(share);
  double const exchanged = static_cast<double>(ranks - 1) / static_cast<double>(ranks);
  auto const of_whole = static_cast<double>(whole.size_bytes());
  auto const of_shares = static_cast<double>(shares.size_bytes());
  MPI_Comm const comm = MPI_COMM_WORLD;
  if (operation.apart)
    return {of_whole, 2 * exchanged,
            [=, &world, out = other.first(whole.size())] {
              world.all_reduce(std::span<const T>(whole), out, op);
            },
            [=] { MPI_Allreduce(whole.data(), other.data(), all, raw.type, raw.op, comm); }};
  if (name == "all_reduce")
    return {of_whole, 2 * exchanged, [=, &world] { world.all_reduce(whole, op); },
            [=] { MPI_Allreduce(MPI_IN_PLACE, whole.data(), all, raw.type, raw.op, comm); }};
  if (name == "broadcast")
    return {of_whole, 1, [=, &world] { world.broadcast(whole, 0); },
            [=] { MPI_Bcast(whole.data(), all, raw.type, 0, comm); }};
  if (name == "reduce")
    return {of_whole, 1, [=, &world] { world.reduce(whole, 0, op); },
            [=, root = world.rank() == 0] {
              MPI_Reduce(root ? MPI_IN_PLACE : whole.data(), whole.data(), all, raw.type, raw.op, 0, comm);
            }};
  if (name == "all_gather")
    return {of_shares, exchanged, [=, &world] { world.all_gather(shares.first(share), results); },
            [=] { MPI_Allgather(shares.data(), part, raw.type, results.data(), part, raw.type, comm); }};
  if (name == "reduce_scatter")
    return {of_shares, exchanged, [=, &world] { world.reduce_scatter(shares, results.first(share), op); },
            [=] { MPI_Reduce_scatter_block(shares.data(), results.data(), part, raw.type, raw.op, comm); }};
  if (name == "all_to_all")
    return {of_shares, exchanged, [=, &world] { world.all_to_all(shares, results); },
            [=] { MPI_Alltoall(shares.data(), part, raw.type, results.data(), part, raw.type, comm); }};
  throw Error(
      ErrorCode::usage,
      "no operation '" + name + "': all_reduce, broadcast, reduce, all_gather, reduce_scatter or all_to_all");
}

template <typename T>
int compare_all(Communicator& world, const Operation& operation, const Raw& raw, double seconds,
                std::size_t most) {
  int slower = 0;
  std::vector<T> memory(most / sizeof(T));
  const auto& name = operation.name;
  bool const shares = name == "all_gather" || name == "reduce_scatter" || name == "all_to_all";
  std::vector<T> other(memory.size());
  auto what = operation.text;
  if (operation.type.empty()) what += std::string(" ") + name_of(DataTypeOf<T>::value);
  for (std::size_t bytes = sizeof(float); bytes <= most; bytes *= 4) {
    if (bytes < sizeof(T) * (shares ? static_cast<std::size_t>(world.size()) : 1)) continue;
    auto const calls = make_calls<T>(world, operation, memory, other, raw, bytes);
    slower += compare(world, what, calls, seconds) ? 1 : 0;
  }
  return slower;
}

int compare_types(Communicator& world, const Operation& operation, double seconds, std::size_t most) {
  const auto& type = operation.type;
  auto const op = to_mpi_op(operation.reduction);
  int slower = 0;
  if (type.empty() || type == "float32")
    slower += compare_all<float>(world, operation, {MPI_FLOAT, op}, seconds, most);
  if (type == "float64") slower += compare_all<double>(world, operation, {MPI_DOUBLE, op}, seconds, most);
  if (type == "bfloat16" || (type.empty() && operation.name == "all_reduce")) {
    Raw narrow = raw_bfloat16(operation.reduction);
    slower += compare_all<bfloat16>(world, operation, narrow, seconds, most);
    MPI_Op_free(&narrow.op);
    MPI_Type_free(&narrow.type);
  }
  return slower;
}

int run(double seconds, std::size_t most, const std::vector<std::string>& arguments) {
  std::vector<Operation> operations;
  for (const auto& text : arguments) operations.push_back(read_operation(text));
  auto job = Job::join();
  auto world = job.host_world();
  if (job.size() == 1)
    throw Error(ErrorCode::usage, "a world of one reduces nothing: start it with mpirun -n 2");
  if (job.rank() == 0) {
    std::printf("%d ranks on %d hosts; times in us, bus bandwidth in GB/s\n", job.size(), job.host_count());
    std::printf("%-23s %10s %12s %12s %9s %9s %7s  %-11s %5s\n", "operation, type", "bytes", "raw", "muster",
                "raw", "muster", "ratio", "95%", "pairs");
  }
  int slower = 0;
  for (const auto& operation : operations) slower += compare_types(world, operation, seconds, most);
  job.leave();
  if (slower > 0 && job.rank() == 0) std::printf("slower than Open MPI in %d lines\n", slower);
  return slower > 0 ? 1 : 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    std::vector<std::string> operations(argv + std::min(argc, 3), argv + argc);
    if (operations.empty()) operations.emplace_back("all_reduce");
    return run(argc > 1 ? std::stod(argv[1]) : 0.5, argc > 2 ? std::stoul(argv[2]) : std::size_t{256} << 20,
               operations);
  } catch (const Error& error) {
    if (!error.reported_elsewhere()) std::fprintf(stderr, "bench_host_collectives: %s\n", error.what());
    return error.exit_code();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "bench_host_collectives: %s\n", error.what());
    return 1;
  }
}
