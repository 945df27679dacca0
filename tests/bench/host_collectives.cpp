// SPDX-License-Identifier: Apache-2.0
// The host communicator's all-reduce beside MPI_Allreduce on MPI_COMM_WORLD: mpirun -n N
// bench_host_collectives [SECONDS [MOST_BYTES]], in one process, on one buffer, in place, in turns; SECONDS
// (0.5) for each size. Prints medians of the slowest rank's time, bus bandwidth as nccl-tests defines it
// (bytes / time * 2 (n - 1) / n) and the median of the pairs' ratios ours / raw with its 95% confidence
// interval (order statistics of the median). Exit code 1 when ours is slower by more than 2% beyond that
// noise, the interval's lower end being above 1.02, at any size.
#include <mpi.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "muster/muster.hpp"

using namespace muster;
using Clock = std::chrono::steady_clock;

namespace {

constexpr double tolerance = 1.02;
constexpr int least_pairs = 11;
constexpr int most_pairs = 301;
// A sample is at least so long: many calls of a short all-reduce.
constexpr double sample_us = 100;

// What a user of MPI writes for a type that MPI lacks.
void add_bfloat16(void* in, void* inout, int* length, MPI_Datatype*) {
  auto const* const from = static_cast<const bfloat16*>(in);
  auto* const to = static_cast<bfloat16*>(inout);
  for (int i = 0; i < *length; ++i) to[i] = bfloat16(static_cast<float>(from[i]) + static_cast<float>(to[i]));
}

struct Raw {
  MPI_Datatype type;
  MPI_Op op;
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

// The binomial distribution's normal approximation gives the ranks of the interval's ends.
Interval of_median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  auto const count = static_cast<double>(values.size());
  auto const reach = 1.96 * std::sqrt(count) / 2;
  auto const low = static_cast<std::size_t>(std::max(0.0, std::floor(count / 2 - reach)));
  auto const high = static_cast<std::size_t>(std::min(count - 1, std::ceil(count / 2 + reach)));
  return {values[low], values[values.size() / 2], values[high]};
}

// One size: its line, and whether ours is slower.
template <typename T>
bool compare(Communicator& world, std::span<T> buffer, const Raw& raw, double seconds) {
  auto const ours_once = [&] { world.all_reduce(buffer); };
  auto const raw_once = [&] {
    MPI_Allreduce(MPI_IN_PLACE, buffer.data(), static_cast<int>(buffer.size()), raw.type, raw.op,
                  MPI_COMM_WORLD);
  };
  time_us(3, ours_once);
  double const once = std::max(time_us(3, raw_once), 0.01);
  int const calls = std::clamp(static_cast<int>(sample_us / once), 1, 2000);
  int const pairs = std::clamp(static_cast<int>(seconds * 1e6 / (2 * once * calls)), least_pairs, most_pairs);
  std::vector<double> of_raw;
  std::vector<double> of_ours;
  std::vector<double> ratios;
  for (int i = 0; i < pairs; ++i) {
    bool const raw_first = i % 2 == 0;
    if (raw_first) of_raw.push_back(time_us(calls, raw_once));
    of_ours.push_back(time_us(calls, ours_once));
    if (!raw_first) of_raw.push_back(time_us(calls, raw_once));
    ratios.push_back(of_ours.back() / of_raw.back());
  }
  auto const ratio = of_median(ratios);
  bool const slower = ratio.low > tolerance;
  if (world.rank() == 0) {
    auto const bytes = static_cast<double>(buffer.size_bytes());
    double const factor = 2.0 * (world.size() - 1) / world.size();
    double const raw_us = median(of_raw);
    double const ours_us = median(of_ours);
    std::printf("%-9s %10.0f %12.2f %12.2f %9.3f %9.3f %7.3f  %.3f-%.3f %5d%s\n",
                name_of(DataTypeOf<T>::value), bytes, raw_us, ours_us, bytes / raw_us / 1e3 * factor,
                bytes / ours_us / 1e3 * factor, ratio.middle, ratio.low, ratio.high, pairs,
                slower ? "  SLOWER" : "");
    std::fflush(stdout);
  }
  return slower;
}

template <typename T>
int compare_all(Communicator& world, const Raw& raw, double seconds, std::size_t most) {
  int slower = 0;
  std::vector<T> memory(most / sizeof(T));
  for (std::size_t bytes = 4; bytes <= most; bytes *= 4)
    slower += compare(world, std::span<T>(memory).first(bytes / sizeof(T)), raw, seconds) ? 1 : 0;
  return slower;
}

int run(double seconds, std::size_t most) {
  auto job = Job::join();
  auto world = job.host_world();
  if (job.size() == 1) throw Error(Fault::usage, "a world of one reduces nothing: start it with mpirun -n 2");
  if (job.rank() == 0) {
    std::printf("%d ranks on %d hosts; times in us, bus bandwidth in GB/s\n", job.size(), job.host_count());
    std::printf("%-9s %10s %12s %12s %9s %9s %7s  %-11s %5s\n", "type", "bytes", "raw", "muster", "raw",
                "muster", "ratio", "95%", "pairs");
  }
  Raw narrow{};
  MPI_Type_contiguous(2, MPI_BYTE, &narrow.type);
  MPI_Type_commit(&narrow.type);
  MPI_Op_create(&add_bfloat16, 1, &narrow.op);
  int slower = compare_all<float>(world, {MPI_FLOAT, MPI_SUM}, seconds, most);
  slower += compare_all<bfloat16>(world, narrow, seconds, most);
  MPI_Op_free(&narrow.op);
  MPI_Type_free(&narrow.type);
  job.leave();
  if (slower > 0 && job.rank() == 0) std::printf("slower than MPI_Allreduce in %d lines\n", slower);
  return slower > 0 ? 1 : 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc > 1 ? std::stod(argv[1]) : 0.5, argc > 2 ? std::stoul(argv[2]) : std::size_t{256} << 20);
  } catch (const Error& error) {
    if (!error.repeated()) std::fprintf(stderr, "bench_host_collectives: %s\n", error.what());
    return error.exit_code();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "bench_host_collectives: %s\n", error.what());
    return 1;
  }
}
