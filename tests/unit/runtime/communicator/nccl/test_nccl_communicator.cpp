// SPDX-License-Identifier: Apache-2.0
// Operations on GPU memory: the calls of NCCL and CUDA that they make, on fakes of both.
#include <cstdlib>
#include <optional>
#include <thread>

#include "communicator/nccl/gpu.hpp"
#include "runtime/communicator/contexts.hpp"
#include "runtime/fakes/fakes.hpp"

using namespace muster;
using namespace std::chrono_literals;

TEST_CASE("a world of one rank on a GPU runs operations, split and barrier, and ends in order") {
  for (const char* init : {"", "slow_init"}) {
    Fakes const fakes("", init);
    int const aborted = nccl_count("fake_nccl_aborted");
    auto const gpu = detail::open_gpu("0000:3b:00.0", 0, "rank 0");
    {
      Communicator world(
          gpu->world(detail::CommunicatorGroup(make_single_rank_context(2s), "world"), Deadline(2s)));
      CHECK(world.size() == 1);
      CHECK(std::string(world.backend()) == "nccl");
      std::vector<float> values{1, 2, 3};
      world.all_reduce(std::span<float>(values), Reduction::average);
      world.broadcast(std::span<float>(values), 0);
      std::vector<float> out(3);
      world.all_gather(std::span<const float>(values), std::span<float>(out));
      world.synchronize();
      world.barrier();
      CHECK(out == std::vector<float>{1, 2, 3});
      auto part = world.split(0);
      part.all_reduce(std::span<float>(values));
      CHECK(nccl_count("fake_nccl_live") == 2);
      gpu->finalize(Deadline(2s));
      CHECK(catch_error([&] { world.all_reduce(std::span<float>(values)); }).code() == ErrorCode::usage);
    }
    CHECK(nccl_count("fake_nccl_live") == 0);
    CHECK(nccl_count("fake_nccl_aborted") == aborted);
  }
}

TEST_CASE("each operation is one NCCL call, or several calls in one NCCL group") {
  Fakes const fakes;
  auto const gpu = detail::open_gpu("", 0, "rank 0");
  Communicator world(gpu->world(detail::CommunicatorGroup(make_context(3), "world"), Deadline(2s)));
  std::vector<float> buffer(6);
  std::vector<float> other(6);
  std::span<float> const out(other);
  std::span<const float> const in(buffer);
  std::vector<std::size_t> const counts{2, 0, 4};
  journal();
  world.all_reduce(std::span<float>(buffer), Reduction::product);
  world.all_reduce(in, out);
  CHECK(journal() == "all_reduce all_reduce");
  world.reduce(std::span<float>(buffer), 2);
  world.broadcast(std::span<float>(buffer), 1);
  world.all_gather(in.first(2), out);
  world.reduce_scatter(in, out.first(2));
  CHECK(journal() == "reduce broadcast all_gather reduce_scatter");
  world.all_reduce(buffer, premul_sum(2));
  world.reduce_scatter(in, out.first(2), premul_sum(2));
  CHECK(journal() == "all_reduce reduce_scatter");
  CHECK(nccl_count("fake_nccl_premul_sums") == 0);  // each is destroyed
  world.all_gather_v(in.first(2), out, std::span<const std::size_t>(counts));
  CHECK(journal() == "( broadcast broadcast )");
  world.all_to_all(in, out);
  CHECK(journal() == "( send recv send recv send recv )");
  world.reduce_scatter_v(in, out.first(2), counts);
  CHECK(journal() == "( reduce reduce )");
  world.all_to_all_v(in, out.first(3), counts, std::vector<std::size_t>{2, 1, 0});
  CHECK(journal() == "( send recv recv send )");
  world.send(in, 1);
  world.recv(out, 2);
  CHECK(journal() == "send recv");
  world.grouped([&] {
    world.all_reduce(std::span<float>(buffer));
    world.send(in, 1);
    world.recv(out, 1);
    world.all_to_all(in, out);
    CHECK(journal() == "");
  });
  CHECK(journal() == "( send recv all_reduce ( send recv send recv send recv ) )");
  world.grouped([] {});
  CHECK(journal() == "");
  CHECK(nccl_count("fake_nccl_depth") == 0);
}

TEST_CASE("on NCCL, rank 0 compares the counts of an all_to_all_v, also in a group") {
  bool const in_group = GENERATE(false, true);
  Fakes const fakes;
  ControlPlaneFixture fixture(2);
  auto const thrown = fixture.run_on_all([&](int rank, control::ControlPlane& plane) {
    auto const gpu = detail::open_gpu("", 0, "rank");
    Communicator world(gpu->world(
        detail::CommunicatorGroup(make_connected_context(fixture, rank, 60s), "world"), Deadline(60s)));
    std::vector<float> const in(4);
    std::vector<float> out(rank == 0 ? 4 : 5);
    using Counts = std::vector<std::size_t>;
    world.all_to_all_v(in, std::span(out).first(4), Counts{2, 2}, Counts{2, 2});
    auto const exchange = [&] {
      // Rank 0 sends 1 element to rank 1, which expects 2.
      if (rank == 0) return world.all_to_all_v(in, out, Counts{3, 1}, Counts{3, 1});
      world.all_to_all_v(in, out, Counts{1, 3}, Counts{2, 3});
    };
    in_group ? world.grouped(exchange) : exchange();
    for (int i = 0; i < 6000 && !plane.failed(); ++i) std::this_thread::sleep_for(10ms);
    plane.check();
  });
  REQUIRE((thrown[0] && thrown[1]));
  CHECK(thrown[1]->code() == ErrorCode::usage);
  CHECK(has(thrown[1]->what(), " on communicator 'world', all_to_all_v of float32: rank 0 (host "));
  CHECK(has(thrown[1]->what(), "sends 1 elements to rank 1 (host h1"));
  CHECK(has(thrown[1]->what(), "whose recv_counts has 2"));
}

TEST_CASE("no operation waits for its stream, except barrier and synchronize") {
  for (const char* how : {"", "slow_group"}) {
    Fakes const fakes("", how);
    auto const gpu = detail::open_gpu("", 0, "rank 0");
    Communicator world(
        gpu->world(detail::CommunicatorGroup(make_single_rank_context(2s), "world"), Deadline(2s)));
    auto const queries = [] { return call_fake<int>(FAKE_CUDA_FILE, "fake_cuda_stream_queries"); };
    int const before = queries();
    setenv("FAKE_CUDA", "stream_busy", 1);
    std::vector<float> buffer{1, 2, 3};
    std::vector<float> other(3);
    std::vector<std::size_t> const counts{3};
    std::span<const float> const in(buffer);
    std::span<float> const out(other);
    world.all_reduce(std::span<float>(buffer));
    world.all_reduce(in, out);
    world.reduce(std::span<float>(buffer), 0);
    world.broadcast(std::span<float>(buffer), 0);
    world.all_gather(in, out);
    world.all_gather_v(in, out, std::span<const std::size_t>(counts));
    world.reduce_scatter(in, out);
    other.assign(3, 0);
    world.all_to_all(in, out);
    CHECK(other == buffer);
    world.grouped([&] { world.all_reduce(std::span<float>(buffer)); });
    CHECK(queries() == before);
    setenv("FAKE_CUDA", "", 1);
    world.barrier();
    CHECK(queries() > before);
    gpu->finalize(Deadline(2s));
  }
}

TEST_CASE("a Work on a GPU is complete when its stream has reached the end of its operations") {
  Fakes const fakes;
  auto const gpu = detail::open_gpu("", 0, "rank 0");
  Communicator world(
      gpu->world(detail::CommunicatorGroup(make_single_rank_context(300ms), "world"), Deadline(2s)));
  std::vector<float> values{1, 2, 3};
  journal();
  setenv("FAKE_CUDA", "stream_busy", 1);
  auto work = world.all_reduce_async(values);
  CHECK(journal() == "( all_reduce )");  // enqueued
  CHECK_FALSE(work.test());
  CHECK_FALSE(work.wait_for(5ms));
  setenv("FAKE_CUDA", "", 1);
  CHECK(work.wait_for(60s));
  CHECK(work.test());
  work = world.async([&] { world.broadcast(values, 0); });
  work.wait();
  CHECK(world.async([] {}).test());
  setenv("FAKE_CUDA", "capturing", 1);
  auto const captured = catch_error([&] { world.all_reduce_async(values); });
  CHECK(captured.code() == ErrorCode::usage);
  CHECK(has(captured.what(), "captured into a CUDA graph"));
  CHECK(call_fake<int>(FAKE_CUDA_FILE, "fake_cuda_asked_in_capture") == 0);
  setenv("FAKE_CUDA", "stream_busy", 1);
  auto late = world.all_reduce_async(values);
  auto const error = catch_error([&] { late.wait_for(60s); });
  CHECK(error.code() == ErrorCode::deadline);
  CHECK(has(error.what(), "all_reduce on communicator 'world'"));
  CHECK(nccl_count("fake_nccl_live") == 0);
}

TEST_CASE("when a group fails or hangs, the call throws and leaves no NCCL group open") {
  {
    Fakes const fakes("", "fail_send");
    auto const gpu = detail::open_gpu("", 0, "rank 0");
    Communicator world(gpu->world(detail::CommunicatorGroup(make_context(2), "world"), Deadline(10s)));
    std::vector<float> values(1);
    auto const error = catch_error([&] {
      world.grouped([&] {
        world.send(std::span<const float>(values), 1);
        world.recv(std::span<float>(values), 1);
      });
    });
    CHECK(error.code() == ErrorCode::device);
    CHECK(has(error.what(), "grouped messages on communicator 'world', rank 0"));
    CHECK(nccl_count("fake_nccl_depth") == 0);
  }
  {
    Fakes const fakes("", "hang_group");
    auto const gpu = detail::open_gpu("", 0, "rank 0");
    Communicator world(
        gpu->world(detail::CommunicatorGroup(make_single_rank_context(), "world"), Deadline(10s)));
    std::vector<float> values(1);
    auto const call = [&] { world.grouped([&] { world.all_reduce(std::span<float>(values)); }); };
    auto const error = catch_error(call);
    CHECK(error.code() == ErrorCode::deadline);
    CHECK(has(error.what(), "all_reduce on communicator 'world'"));
    CHECK(catch_error(call).code() == ErrorCode::usage);
  }
  CHECK(nccl_count("fake_nccl_live") == 0);
}

TEST_CASE("a thread other than the one that joined may use the GPU") {
  Fakes const fakes;
  auto const gpu = detail::open_gpu("", 0, "rank 0");
  std::optional<Error> failed;
  auto const on_thread = [&](auto call) {
    std::thread([&] {
      try {
        call();
      } catch (const Error& error) {
        failed = error;
      }
    }).join();
    INFO((failed ? failed->what() : ""));
    CHECK_FALSE(failed);
  };
  std::optional<Communicator> world;
  on_thread([&] {
    world.emplace(gpu->world(detail::CommunicatorGroup(make_single_rank_context(), "world"), Deadline(10s)));
  });
  on_thread([&] { world->split(0); });
  on_thread([&] { world->synchronize(); });
  on_thread([&] { world->barrier(); });
}
