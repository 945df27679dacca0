// SPDX-License-Identifier: Apache-2.0
// Features built on NCCL's collectives: splits, the job's communicators, the reducer, state from rank 0.
#include <cmath>
#include <string>

#include "catch.hpp"
#include "on_gpu.hpp"
#include "runtime/communicator/reference.hpp"
#include "runtime/scenarios/world.hpp"

using namespace muster;
using namespace reference;
using one_gpu::check;
using one_gpu::OnGpu;

TEST_CASE("NCCL's split, its barrier and a host communicator work together") {
  auto world = job().world();
  REQUIRE(std::string(world.backend()) == "nccl");
  world.barrier();
  auto part = world.split(world.rank() % 2, -world.rank());
  OnGpu<std::int32_t> one(std::vector<std::int32_t>{1});
  part.all_reduce(one.span(), Reduction::sum, one.stream());
  REQUIRE(one.values(part).at(0) == part.size());
  REQUIRE(part.size() == (world.size() + (world.rank() % 2 == 0 ? 1 : 0)) / 2);
  if (world.size() > 1 && std::string(job().bootstrap()) != "pmix") return;  // Open MPI needs PMIx
  std::vector<std::int32_t> host{1};
  job().host_world().all_reduce(std::span<std::int32_t>(host));
  REQUIRE(host.at(0) == world.size());
}

TEST_CASE("NCCL's communicators within the node and across nodes sum their ranks") {
  auto node = job().intra_node();
  auto across = job().inter_node();
  REQUIRE(node.size() == job().local_size());
  REQUIRE(node.rank() == job().local_rank());
  REQUIRE(across.rank() == job().host_index());
  OnGpu<std::int32_t> sum(std::vector<std::int32_t>{1});
  node.all_reduce(sum.span(), Reduction::sum, sum.stream());
  across.all_reduce(sum.span(), Reduction::sum, sum.stream());
  REQUIRE(sum.values(across).at(0) == job().size());
}

TEST_CASE("the phases of NCCL's start are timed") {
  job().world();
  const auto& timings = job().timings();
  REQUIRE(timings.gpu.count() > 0);
  REQUIRE(timings.nccl_id.count() > 0);
  REQUIRE(timings.nccl_init.count() > 0);
  REQUIRE((timings.first_collective.count() > 0.001) == (job().size() > 1));
  REQUIRE(timings.world >= timings.nccl_id + timings.nccl_init + timings.first_collective);
}

TEST_CASE(
    "NCCL's reducer averages gradients beside the program's stream, registered, scattered and measured") {
  auto world = job().world();
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
        // Written on the program's stream: the reducer must wait for it, and later work for the reducer.
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

TEST_CASE("NCCL broadcasts rank 0's state to every GPU") {
  auto world = job().world();
  OnGpu<float> large(numbers<float>(world.rank(), 100'000));
  OnGpu<std::uint8_t> small(numbers<std::uint8_t>(world.rank(), 3));
  check(cudaStreamSynchronize(small.stream()));
  broadcast_state(world, State().add(large.span()).add(small.span()), large.stream());
  REQUIRE(same_bits(large.values(world), numbers<float>(0, 100'000)));
  REQUIRE(same_bits(small.values(world), numbers<std::uint8_t>(0, 3)));
}
