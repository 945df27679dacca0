// SPDX-License-Identifier: Apache-2.0
// The real NCCL through libmuster, against plain references: on_ranks N test_gpu (or mpirun -n N), with one GPU (one_gpu.hpp
// says what that covers) or more. Without a GPU: says so, exit code 77.
#include <cuda_runtime.h>

#include <cstdio>
#include <string>

#include "one_gpu.hpp"
#include "reference.hpp"
#include "catch.hpp"
#include "run_tests.hpp"

using namespace muster;
using namespace reference;
using one_gpu::check;

namespace {

Job* joined = nullptr;

// Elements in GPU memory, with a stream of their own.
template <typename T>
class OnGpu {
 public:
  explicit OnGpu(std::size_t count) : count_(count) {
    check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
    check(cudaMalloc(reinterpret_cast<void**>(&data_), count * sizeof(T)));
  }
  explicit OnGpu(const std::vector<T>& values) : OnGpu(values.size()) {
    check(cudaMemcpyAsync(data_, values.data(), count_ * sizeof(T), cudaMemcpyHostToDevice, stream_));
  }
  ~OnGpu() {
    cudaFree(data_);
    cudaStreamDestroy(stream_);
  }
  OnGpu(const OnGpu&) = delete;
  OnGpu& operator=(const OnGpu&) = delete;

  std::span<T> span() { return {data_, count_}; }
  std::span<const T> view() const { return {data_, count_}; }
  Stream stream() const { return stream_; }
  std::vector<T> values(Communicator& through) {
    through.synchronize(stream_);
    std::vector<T> copy(count_);
    check(cudaMemcpy(copy.data(), data_, count_ * sizeof(T), cudaMemcpyDeviceToHost));
    return copy;
  }

 private:
  std::size_t count_;
  T* data_ = nullptr;
  cudaStream_t stream_ = nullptr;
};

// NCCL multiplies 16-bit floats by 1/n before it adds; the plain reference divides once at the end.
template <typename T>
bool close_numbers(const std::vector<T>& a, const std::vector<T>& b) {
  constexpr bool narrow = std::is_same_v<T, bfloat16> || std::is_same_v<T, half>;
  double const tolerance = narrow ? 0.05 : std::is_floating_point_v<T> ? 1e-5 : 0.0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (std::abs(as_double(a[i]) - as_double(b[i])) > tolerance) return false;
  }
  return a.size() == b.size();
}

}  // namespace

TEMPLATE_TEST_CASE("NCCL's reductions equal a plain reference", "", float, double, bfloat16, half,
                   std::int8_t, std::uint8_t, std::int32_t, std::uint32_t, std::int64_t, std::uint64_t) {
  using T = TestType;
  auto world = joined->world();
  auto const ranks = static_cast<std::size_t>(world.size());
  for (Reduction op : all_reductions) {
    for (std::size_t count : {std::size_t{1}, std::size_t{70001}}) {
      INFO("count " << count << ", reduction " << static_cast<int>(op));
      auto const own = operands<T>(world.rank(), count, op);
      auto const expected = reduced<T>(world.size(), count, op);
      auto const as_expected = [&](const std::vector<T>& got) {
        return op == Reduction::average ? close_numbers(got, expected) : same_numbers(got, expected);
      };
      OnGpu<T> buffer(own);
      world.all_reduce(buffer.span(), op, buffer.stream());
      REQUIRE(as_expected(buffer.values(world)));
      OnGpu<T> const in(own);
      OnGpu<T> out(count);
      check(cudaStreamSynchronize(in.stream()));
      world.all_reduce(in.view(), out.span(), op, out.stream());
      REQUIRE(as_expected(out.values(world)));
      int const root = static_cast<int>(count) % world.size();
      OnGpu<T> at_root(own);
      world.reduce(at_root.span(), root, op, at_root.stream());
      auto const there = at_root.values(world);
      REQUIRE((world.rank() == root ? as_expected(there) : same_bits(there, own)));

      OnGpu<T> const all(operands<T>(world.rank(), count * ranks, op));
      OnGpu<T> mine(count);
      check(cudaStreamSynchronize(all.stream()));
      world.reduce_scatter(all.view(), mine.span(), op, mine.stream());
      auto const whole = reduced<T>(world.size(), count * ranks, op);
      auto const begin = whole.begin() + static_cast<std::ptrdiff_t>(count) * world.rank();
      std::vector<T> const part(begin, begin + static_cast<std::ptrdiff_t>(count));
      auto const scattered = mine.values(world);
      REQUIRE((op == Reduction::average ? close_numbers(scattered, part) : same_numbers(scattered, part)));
    }
  }
}

TEMPLATE_TEST_CASE("NCCL's copies carry every bit", "", float, double, bfloat16, half, std::int8_t,
                   std::uint8_t, std::int32_t, std::uint32_t, std::int64_t, std::uint64_t) {
  using T = TestType;
  auto world = joined->world();
  std::size_t const count = 300001;
  for (int root = 0; root < world.size(); ++root) {
    OnGpu<T> buffer(numbers<T>(world.rank(), count));
    world.broadcast(buffer.span(), root, buffer.stream());
    REQUIRE(same_bits(buffer.values(world), numbers<T>(root, count)));
  }
  OnGpu<T> const mine(numbers<T>(world.rank(), count));
  OnGpu<T> all(count * static_cast<std::size_t>(world.size()));
  check(cudaStreamSynchronize(mine.stream()));
  world.all_gather(mine.view(), all.span(), all.stream());
  auto const got = all.values(world);
  for (int r = 0; r < world.size(); ++r) {
    auto const begin = got.begin() + static_cast<std::ptrdiff_t>(count) * r;
    REQUIRE(
        same_bits(std::vector<T>(begin, begin + static_cast<std::ptrdiff_t>(count)), numbers<T>(r, count)));
  }
}

TEMPLATE_TEST_CASE("NCCL's shares of different lengths and its exchange of slices", "", float, double,
                   bfloat16, half, std::int8_t, std::uint8_t, std::int32_t, std::uint32_t, std::int64_t,
                   std::uint64_t) {
  using T = TestType;
  auto world = joined->world();
  std::vector<std::size_t> counts;
  std::vector<T> expected;
  for (int r = 0; r < world.size(); ++r) {
    counts.push_back(static_cast<std::size_t>((r + 1) % 3) * 5001);
    auto const part = numbers<T>(r, counts.back());
    expected.insert(expected.end(), part.begin(), part.end());
  }
  auto const own = counts[static_cast<std::size_t>(world.rank())];
  OnGpu<T> const mine(numbers<T>(world.rank(), own));
  OnGpu<T> all(expected.size());
  check(cudaStreamSynchronize(mine.stream()));
  world.all_gather_v(mine.view(), all.span(), std::span<const std::size_t>(counts), all.stream());
  REQUIRE(same_bits(all.values(world), expected));

  std::size_t const slice = 3001;
  auto const whole = slice * static_cast<std::size_t>(world.size());
  OnGpu<T> const in(numbers<T>(world.rank(), whole));
  OnGpu<T> out(whole);
  check(cudaStreamSynchronize(in.stream()));
  world.all_to_all(in.view(), out.span(), out.stream());
  std::vector<T> slices;
  for (int r = 0; r < world.size(); ++r) {
    auto const theirs = numbers<T>(r, whole);
    auto const begin = theirs.begin() + static_cast<std::ptrdiff_t>(slice) * world.rank();
    slices.insert(slices.end(), begin, begin + static_cast<std::ptrdiff_t>(slice));
  }
  REQUIRE(same_bits(out.values(world), slices));
}

TEST_CASE("NCCL's grouped messages in both directions, with collectives among them") {
  auto world = joined->world();
  if (world.size() == 1) return;
  int const next = (world.rank() + 1) % world.size();
  int const previous = (world.rank() + world.size() - 1) % world.size();
  OnGpu<float> const mine(numbers<float>(world.rank(), 300000));
  OnGpu<float> theirs(300000);
  OnGpu<std::int32_t> sum(std::vector<std::int32_t>{world.rank()});
  check(cudaStreamSynchronize(mine.stream()));
  check(cudaStreamSynchronize(sum.stream()));
  world.grouped([&] {
    world.send(mine.view(), next, theirs.stream());
    world.all_reduce(sum.span(), Reduction::sum, theirs.stream());
    world.recv(theirs.span(), previous, theirs.stream());
  });
  REQUIRE(same_bits(theirs.values(world), numbers<float>(previous, 300000)));
  REQUIRE(sum.values(world).at(0) == world.size() * (world.size() - 1) / 2);
}

TEST_CASE("NCCL's messages go round the ring") {
  auto world = joined->world();
  if (world.size() == 1) return;
  int const next = (world.rank() + 1) % world.size();
  int const previous = (world.rank() + world.size() - 1) % world.size();
  OnGpu<float> const mine(numbers<float>(world.rank(), 1000));
  OnGpu<float> theirs(1000);
  check(cudaStreamSynchronize(mine.stream()));
  // One rank at a time sends while the next receives: a send that was only enqueued holds its stream until
  // then.
  if (world.rank() == 0) world.send(mine.view(), next, theirs.stream());
  world.recv(theirs.span(), previous, theirs.stream());
  if (world.rank() != 0) world.send(mine.view(), next, theirs.stream());
  REQUIRE(same_bits(theirs.values(world), numbers<float>(previous, 1000)));
}

TEST_CASE("NCCL's split, barrier and the host communicator beside it") {
  auto world = joined->world();
  REQUIRE(std::string(world.backend()) == "nccl");
  world.barrier();
  auto part = world.split(world.rank() % 2, -world.rank());
  OnGpu<std::int32_t> one(std::vector<std::int32_t>{1});
  part.all_reduce(one.span(), Reduction::sum, one.stream());
  REQUIRE(one.values(part).at(0) == part.size());
  REQUIRE(part.size() == (world.size() + (world.rank() % 2 == 0 ? 1 : 0)) / 2);
  if (world.size() > 1 && std::string(joined->bootstrap()) != "pmix") return;  // Open MPI needs it
  std::vector<std::int32_t> host{1};
  joined->host_world().all_reduce(std::span<std::int32_t>(host));
  REQUIRE(host.at(0) == world.size());
}

TEST_CASE("NCCL's communicators of the node and across nodes") {
  auto node = joined->node();
  auto across = joined->across_nodes();
  REQUIRE(node.size() == joined->local_size());
  REQUIRE(node.rank() == joined->local_rank());
  REQUIRE(across.rank() == joined->host_index());
  OnGpu<std::int32_t> sum(std::vector<std::int32_t>{1});
  node.all_reduce(sum.span(), Reduction::sum, sum.stream());
  across.all_reduce(sum.span(), Reduction::sum, sum.stream());
  REQUIRE(sum.values(across).at(0) == joined->size());
}

TEST_CASE("the phases of NCCL's start are timed") {
  joined->world();
  const auto& timings = joined->timings();
  REQUIRE(timings.gpu.count() > 0);
  REQUIRE(timings.nccl_id.count() > 0);
  REQUIRE(timings.nccl_init.count() > 0);
  REQUIRE((timings.first_collective.count() > 0.001) == (joined->size() > 1));
  REQUIRE(timings.world >= timings.nccl_id + timings.nccl_init + timings.first_collective);
}

TEST_CASE("NCCL's reducer averages gradients beside the program's stream, registered, scattered and measured") {
  auto world = joined->world();
  std::vector<std::size_t> const sizes{1000, 300001, 7, 65536};
  std::vector<OnGpu<float>*> own;
  std::vector<std::span<float>> scattered;
  for (auto const size : sizes) {
    own.push_back(new OnGpu<float>(size));
    scattered.push_back(own.back()->span());
  }
  cudaStream_t stream = nullptr;
  check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  auto const steps = [&](Reducer& reducer) {
    for (int step = 0; step < 3; ++step) {
      for (std::size_t i = sizes.size(); i-- > 0;) {
        auto const values = numbers<float>(world.rank() + 10 * step, sizes[i]);
        // Written on the program's stream: the reducer has to wait for it, and what follows for the reducer.
        check(cudaMemcpyAsync(reducer.gradient(i).data(), values.data(), sizes[i] * sizeof(float),
                              cudaMemcpyHostToDevice, stream));
        reducer.ready(i, stream);
      }
      reducer.finish(stream);
      for (std::size_t i = 0; i < sizes.size(); ++i) {
        std::vector<float> got(sizes[i]);
        check(cudaMemcpyAsync(got.data(), reducer.gradient(i).data(), sizes[i] * sizeof(float),
                              cudaMemcpyDeviceToHost, stream));
        world.synchronize(stream);
        std::vector<double> sum(sizes[i]);
        for (int r = 0; r < world.size(); ++r) {
          auto const theirs = numbers<float>(r + 10 * step, sizes[i]);
          for (std::size_t k = 0; k < sum.size(); ++k) sum[k] += double{theirs[k]};
        }
        double worst = 0;
        for (std::size_t k = 0; k < sum.size(); ++k)
          worst = std::max(worst, std::abs(double{got[k]} - sum[k] / world.size()));
        REQUIRE(worst < 1e-5);
      }
      auto const statistics = reducer.last_step();
      REQUIRE(statistics.step == static_cast<std::uint64_t>(step + 1));
      REQUIRE(statistics.buckets == reducer.buckets());
      REQUIRE(statistics.communication > 0);
      REQUIRE(statistics.exposed >= 0);
    }
  };
  for (bool const overlap : {true, false}) {
    Reducer registered(world, sizes, {.overlap = overlap});
    steps(registered);
    Reducer copied(world, scattered, {.bucket_bytes = 100'000, .overlap = overlap});
    steps(copied);
  }
  check(cudaStreamDestroy(stream));
  for (auto* const one : own) delete one;
}

TEST_CASE("NCCL carries rank 0's state to every GPU") {
  auto world = joined->world();
  OnGpu<float> large(numbers<float>(world.rank(), 100'000));
  OnGpu<std::uint8_t> small(numbers<std::uint8_t>(world.rank(), 3));
  check(cudaStreamSynchronize(small.stream()));
  broadcast_state(world, State().add(large.span()).add(small.span()), large.stream());
  REQUIRE(same_bits(large.values(world), numbers<float>(0, 100'000)));
  REQUIRE(same_bits(small.values(world), numbers<std::uint8_t>(0, 3)));
}

int main(int argc, char** argv) {
  int const gpus = one_gpu::count_gpus();
  if (gpus == 0) return 77;
  one_gpu::share(gpus);
  try {
    auto job = Job::join({.deadline = std::chrono::seconds(60),
                          .operation_timeout = std::chrono::seconds(60),
                          .device = Device::cuda});
    joined = &job;
    one_gpu::use(gpus, job.local_rank());
    int const failed = run_tests(argc, argv);
    job.leave();
    return failed;
  } catch (const Error& error) {
    if (!error.repeated()) std::fprintf(stderr, "%s\n", error.what());
    return error.exit_code();
  }
}
