// SPDX-License-Identifier: Apache-2.0
// The reducer on GPU memory, on fakes of CUDA and NCCL: what is enqueued on which stream, in which order, and
// which memory is allocated. The world has one rank; test_gpu_reductions.cpp has several.
#include <cstdlib>
#include <string>

#include "muster/reducer.hpp"
#include "muster/state.hpp"
#include "runtime/fakes/on_fakes.hpp"
#include "telemetry/counters.hpp"

using namespace muster;
using namespace std::chrono_literals;

namespace {

RankMetrics::Operation read_operation(const char* operation) {
  for (const auto& one : observe::counters().read(Hello{}).operations)
    if (one.operation == operation) return one;
  FAIL("no such operation");
  return {};
}

}  // namespace

TEST_CASE(
    "when a bucket is full on a GPU, it is enqueued after the program's stream, and finish blocks that "
    "stream") {
  OnFakes fakes;
  auto const urgent_streams = [] { return call_fake<int>(FAKE_CUDA_FILE, "fake_cuda_urgent_streams"); };
  int const urgent_before = urgent_streams();
  {
    Reducer reducer(*fakes.world, std::vector<std::size_t>{100, 200, 300}, {.bucket_bytes = 1000});
    CHECK(reducer.buckets() == 2);  // 300; 200 and 100
    CHECK(urgent_streams() == urgent_before + 1);
    CHECK(nccl_count("fake_nccl_registrations") == 1);
    CHECK(nccl_count("fake_nccl_allocations") == 1);
    int const before = nccl_count("fake_nccl_all_reduces");
    auto const counted_before = read_operation("all_reduce");
    cuda_log();
    reducer.ready(2);
    CHECK(nccl_count("fake_nccl_all_reduces") == before + 1);
    CHECK(call_fake<void*>(FAKE_NCCL_FILE, "fake_nccl_last_stream") != nullptr);
    // The order of the streams, then the events that time the all-reduce.
    CHECK(normalize_log(cuda_log()) == "record a on 0; b waits for a; record c on b; record d on b; ");
    reducer.ready(1);
    CHECK(cuda_log().empty());
    reducer.ready(0);
    CHECK(nccl_count("fake_nccl_all_reduces") == before + 2);
    CHECK(read_operation("all_reduce").calls == counted_before.calls + 2);
    CHECK(read_operation("all_reduce").bytes == counted_before.bytes + 2400);
    cuda_log();
    reducer.finish();
    CHECK(normalize_log(cuda_log()) == "record a on 0; record b on c; 0 waits for b; record d on 0; ");
    auto const statistics = reducer.last_step();
    CHECK(statistics.step == 1);
    CHECK(statistics.buckets == 2);
    CHECK(statistics.bytes == 2400);
    CHECK(statistics.communication == Approx(0.002));  // the fake's clock advances by 1 ms at each record
    CHECK(statistics.exposed == Approx(0.002));
    // While the GPU is behind, last_step() returns the last step whose times are known.
    for (std::size_t const i : {2, 1, 0}) reducer.ready(i);
    setenv("FAKE_CUDA", "stream_busy", 1);
    reducer.finish();
    CHECK(reducer.last_step().step == 1);
    CHECK_FALSE(reducer.step(2));
    setenv("FAKE_CUDA", "", 1);
    CHECK(reducer.last_step().step == 2);
    // A program that is a step ahead can read the step before, until another step reuses its events.
    for (std::uint64_t const step : {1, 2}) {
      auto const its = reducer.step(step);
      REQUIRE(its);
      CHECK(its->step == step);
      CHECK(its->exposed == Approx(0.002));
    }
    CHECK_FALSE(reducer.step(0));
    CHECK_FALSE(reducer.step(3));
    reducer.ready(2);
    CHECK_FALSE(reducer.step(1));
    CHECK(reducer.step(2)->step == 2);
    reducer.ready(1);
    reducer.ready(0);
    reducer.finish();
  }
  CHECK(nccl_count("fake_nccl_registrations") == 0);
  CHECK(nccl_count("fake_nccl_allocations") == 0);
  CHECK(live_cuda_objects() == 0);
}

TEST_CASE("before a reducer frees GPU memory, it waits for its work as communicators do, with a deadline") {
  OnFakes fakes;
  {
    Reducer reducer(*fakes.world, std::vector<std::size_t>{100}, {.bucket_bytes = 1000});
    setenv("FAKE_CUDA", "late", 1);
    reducer.ready(0);
    reducer.finish();
    cuda_log();
  }
  std::string const log = cuda_log(), waits = "the host waits in ";
  CHECK(log.find(waits) != std::string::npos);
  CHECK(log.find(waits) == log.find(waits + "cuStreamQuery"));
  setenv("FAKE_CUDA", "", 1);
}

TEST_CASE("on a GPU the caller's memory is registered if it is contiguous, else copied on the stream") {
  OnFakes fakes;
  std::vector<float> whole(30, 1.0f), apart(5, 2.0f);
  std::vector<std::span<float>> const together{std::span(whole).first(10), std::span(whole).last(20)};
  {
    Reducer reducer(*fakes.world, together, {.bucket_bytes = 1});
    CHECK(nccl_count("fake_nccl_registrations") == 2);
    CHECK(nccl_count("fake_nccl_allocations") == 0);
  }
  std::vector<std::span<float>> const scattered{std::span(apart), std::span(whole)};
  {
    Reducer reducer(*fakes.world, scattered, {.bucket_bytes = 1u << 20, .overlap = false});
    CHECK(nccl_count("fake_nccl_allocations") == 1);
    cuda_log();
    reducer.ready(1);
    reducer.ready(0);
    CHECK(normalize_log(cuda_log()) == "record a on 0; b waits for a; ");
    reducer.finish();
    auto const log = cuda_log();
    CHECK(log.find("copy 20 on ") != std::string::npos);
    CHECK(log.find("copy 120 on ") != std::string::npos);
    CHECK(apart[4] == 2.0f);
  }
  CHECK(nccl_count("fake_nccl_registrations") == 0);
}

TEST_CASE("on a GPU the reducer works without NCCL's memory and without registration") {
  for (const char* what : {"no_memory", "no_registration"}) {
    OnFakes fakes(what);
    Reducer reducer(*fakes.world, std::vector<std::size_t>{10});
    CHECK(nccl_count("fake_nccl_allocations") == (std::string(what) == "no_memory" ? 0 : 1));
    reducer.gradient(0)[3] = 5;
    reducer.ready(0);
    reducer.finish();
    CHECK(reducer.gradient(0)[3] == 5);
  }
  CHECK(nccl_count("fake_nccl_allocations") == 0);
}

TEST_CASE("on a GPU a bucket waits for every stream on which one of its gradients was made ready") {
  OnFakes fakes;
  Stream const first = create_stream(), second = create_stream();
  {
    Reducer reducer(*fakes.world, std::vector<std::size_t>{100, 200, 300}, {.bucket_bytes = 1000});
    cuda_log();
    reducer.ready(0, first);
    reducer.ready(2, first);  // bucket 0
    CHECK(normalize_log(cuda_log()) == "record a on b; c waits for a; record d on c; record e on c; ");
    reducer.ready(1, second);
    CHECK(normalize_log(cuda_log()) ==
          "record a on b; c waits for a; record a on d; c waits for a; record e on c; record f on c; ");
    reducer.finish(second);
    // Bucket 1 is full before bucket 0. It starts after bucket 0, without waiting for a stream again.
    cuda_log();
    reducer.ready(1, first);
    reducer.ready(0, first);
    CHECK(normalize_log(cuda_log()) == "record a on b; c waits for a; ");
    reducer.ready(2, second);
    CHECK(normalize_log(cuda_log()) ==
          "record a on b; c waits for a; record d on c; record e on c; record f on c; record g on c; ");
    reducer.finish(second);
  }
  for (Stream const stream : {first, second}) destroy_stream(stream);
  CHECK(live_cuda_objects() == 0);
}

TEST_CASE("on a GPU state in host memory is rejected, and CUDA's errors are named") {
  OnFakes fakes;
  std::vector<float> values(3);
  broadcast_state(*fakes.world, State().add(std::span<float>(values)));
  int counter = 0;
  CHECK_THROWS_AS(broadcast_state(*fakes.world, State().add(counter)), Error);
  setenv("FAKE_CUDA", "no_stream", 1);
  auto const error = catch_error([&] { Reducer(*fakes.world, std::vector<std::size_t>{10}); });
  CHECK(error.code() == ErrorCode::device);
  CHECK(std::string(error.what()).find("no stream: CUDA says: an illegal memory access") !=
        std::string::npos);
}
