// SPDX-License-Identifier: Apache-2.0
// The reducer on GPU memory, on test doubles of CUDA and NCCL: what is enqueued where, in which order, and
// what memory is asked for. A world of one: test_gpu_reductions.cpp has several ranks.
#include <cstdlib>
#include <string>

#include "muster/reducer.hpp"
#include "muster/state.hpp"
#include "on_fakes.hpp"
#include "telemetry/counters.hpp"

using namespace muster;
using namespace std::chrono_literals;

namespace {

RankMetrics::Operation counted(const char* operation) {
  for (const auto& one : observe::counters().read(Hello{}).operations)
    if (one.operation == operation) return one;
  FAIL("no such operation");
  return {};
}

}  // namespace

TEST_CASE(
    "on a GPU a full bucket is enqueued behind the program's stream, and finish makes that stream wait") {
  OnFakes fakes;
  {
    Reducer reducer(*fakes.world, std::vector<std::size_t>{100, 200, 300}, {.bucket_bytes = 1000});
    CHECK(reducer.buckets() == 2);  // 300; 200 and 100
    CHECK(count("fake_nccl_registrations") == 1);
    CHECK(count("fake_nccl_allocations") == 1);
    int const before = count("fake_nccl_all_reduces");
    auto const counted_before = counted("all_reduce");
    cuda_log();
    reducer.ready(2);
    CHECK(count("fake_nccl_all_reduces") == before + 1);
    CHECK(ask<void*>(FAKE_NCCL_FILE, "fake_nccl_last_stream") != nullptr);
    // Order, then the marks between which the all-reduce is timed.
    CHECK(shape_of(cuda_log()) == "record a on 0; b waits for a; record c on b; record d on b; ");
    reducer.ready(1);
    CHECK(cuda_log().empty());
    reducer.ready(0);
    CHECK(count("fake_nccl_all_reduces") == before + 2);
    CHECK(counted("all_reduce").calls == counted_before.calls + 2);
    CHECK(counted("all_reduce").bytes == counted_before.bytes + 2400);
    cuda_log();
    reducer.finish();
    CHECK(shape_of(cuda_log()) == "record a on 0; record b on c; 0 waits for b; record d on 0; ");
    auto const statistics = reducer.last_step();
    CHECK(statistics.step == 1);
    CHECK(statistics.buckets == 2);
    CHECK(statistics.bytes == 2400);
    CHECK(statistics.communication == Approx(0.002));  // the double's clock: a millisecond a record
    CHECK(statistics.exposed == Approx(0.002));
    // While the GPU is behind, the last step that is known counts.
    for (std::size_t const i : {2, 1, 0}) reducer.ready(i);
    setenv("FAKE_CUDA", "stream_busy", 1);
    reducer.finish();
    CHECK(reducer.last_step().step == 1);
    CHECK_FALSE(reducer.step(2));
    setenv("FAKE_CUDA", "", 1);
    CHECK(reducer.last_step().step == 2);
    // A program that is a step ahead asks for the step before, until its marks are another's.
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
  CHECK(count("fake_nccl_registrations") == 0);
  CHECK(count("fake_nccl_allocations") == 0);
  CHECK(cuda_live() == 0);
}

TEST_CASE(
    "on a GPU the caller's memory is registered where it lies in one piece, else copied on the stream") {
  OnFakes fakes;
  std::vector<float> whole(30, 1.0f), apart(5, 2.0f);
  std::vector<std::span<float>> const together{std::span(whole).first(10), std::span(whole).last(20)};
  {
    Reducer reducer(*fakes.world, together, {.bucket_bytes = 1});
    CHECK(count("fake_nccl_registrations") == 2);
    CHECK(count("fake_nccl_allocations") == 0);
  }
  std::vector<std::span<float>> const scattered{std::span(apart), std::span(whole)};
  {
    Reducer reducer(*fakes.world, scattered, {.bucket_bytes = 1u << 20, .overlap = false});
    CHECK(count("fake_nccl_allocations") == 1);
    cuda_log();
    reducer.ready(1);
    reducer.ready(0);
    CHECK(shape_of(cuda_log()) == "record a on 0; b waits for a; ");
    reducer.finish();
    auto const log = cuda_log();
    CHECK(log.find("copy 20 on ") != std::string::npos);
    CHECK(log.find("copy 120 on ") != std::string::npos);
    CHECK(apart[4] == 2.0f);
  }
  CHECK(count("fake_nccl_registrations") == 0);
}

TEST_CASE("on a GPU the reducer works without NCCL's memory and without registration") {
  for (const char* what : {"no_memory", "no_registration"}) {
    OnFakes fakes(what);
    Reducer reducer(*fakes.world, std::vector<std::size_t>{10});
    CHECK(count("fake_nccl_allocations") == (std::string(what) == "no_memory" ? 0 : 1));
    reducer.gradient(0)[3] = 5;
    reducer.ready(0);
    reducer.finish();
    CHECK(reducer.gradient(0)[3] == 5);
  }
  CHECK(count("fake_nccl_allocations") == 0);
}

TEST_CASE("on a GPU a bucket waits for every stream on which one of its gradients was made ready") {
  OnFakes fakes;
  Stream const first = new_stream(), second = new_stream();
  {
    Reducer reducer(*fakes.world, std::vector<std::size_t>{100, 200, 300}, {.bucket_bytes = 1000});
    cuda_log();
    reducer.ready(0, first);
    reducer.ready(2, first);  // bucket 0
    CHECK(shape_of(cuda_log()) == "record a on b; c waits for a; record d on c; record e on c; ");
    reducer.ready(1, second);
    CHECK(shape_of(cuda_log()) ==
          "record a on b; c waits for a; record a on d; c waits for a; record e on c; record f on c; ");
    reducer.finish(second);
    // Bucket 1 is full before bucket 0 and waits for its turn, but not for the stream of its last gradient.
    cuda_log();
    reducer.ready(1, first);
    reducer.ready(0, first);
    CHECK(shape_of(cuda_log()) == "record a on b; c waits for a; ");
    reducer.ready(2, second);
    CHECK(shape_of(cuda_log()) ==
          "record a on b; c waits for a; record d on c; record e on c; record f on c; record g on c; ");
    reducer.finish(second);
  }
  for (Stream const stream : {first, second}) end_stream(stream);
  CHECK(cuda_live() == 0);
}

TEST_CASE("on a GPU state that needs the host is refused, and CUDA's refusals are named") {
  OnFakes fakes;
  std::vector<float> values(3);
  broadcast_state(*fakes.world, State().add(std::span<float>(values)));
  int counter = 0;
  CHECK_THROWS_AS(broadcast_state(*fakes.world, State().add(counter)), Error);
  setenv("FAKE_CUDA", "no_stream", 1);
  auto const error = error_of([&] { Reducer(*fakes.world, std::vector<std::size_t>{10}); });
  CHECK(error.code() == ErrorCode::device);
  CHECK(std::string(error.what()).find("no stream: CUDA says: an illegal memory access") !=
        std::string::npos);
}
