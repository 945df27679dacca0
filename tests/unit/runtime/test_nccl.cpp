// SPDX-License-Identifier: Apache-2.0
// The GPU backend on test doubles of CUDA and NCCL (fake_cuda.cpp, fake_nccl.cpp): loading, errors,
// deadlines, worlds of one.
#include <cstdlib>
#include <optional>
#include <thread>

#include "catch.hpp"
#include "communicator/cuda_device.hpp"
#include "communicator/gpu.hpp"
#include "fakes.hpp"
#include "star.hpp"

using namespace muster;
using namespace std::chrono_literals;

namespace {

std::shared_ptr<const detail::JobContext> alone(std::chrono::milliseconds timeout = 300ms) {
  auto context = std::make_shared<detail::JobContext>();
  context->roster = Star::roster_of(1);
  context->operation_timeout = timeout;
  return context;
}

// Rank 0 of several, the others of which never come: what NCCL is told can be seen, not what comes of it.
std::shared_ptr<const detail::JobContext> among(std::size_t ranks, std::chrono::milliseconds timeout = 2s) {
  auto context = std::make_shared<detail::JobContext>();
  context->roster = Star::roster_of(static_cast<int>(ranks));
  context->operation_timeout = timeout;
  return context;
}

}  // namespace

TEST_CASE("PCI addresses compare whatever their spelling") {
  using detail::canonical_pci;
  CHECK(canonical_pci("00000000:3B:00.0") == "0000:3b:00.0");
  CHECK(canonical_pci("3b:00.0") == "0000:3b:00.0");
  CHECK(canonical_pci("10001:3b:00.0") == "10001:3b:00.0");
  CHECK(canonical_pci("MIG-ABC") == "mig-abc");
}

TEST_CASE("a placed GPU is found by PCI address or UUID") {
  Fakes const fakes;
  auto const gpu = detail::open_gpu("00000000:3B:00.0", 0, "rank 0 (host a)");
  CHECK(gpu->pci_address() == "0000:3b:00.0");
  CHECK(gpu->uuid() == "GPU-10111213-1415-1617-1819-1a1b1c1d1e1f");
  CHECK(gpu->nccl_version() == "2.28.9");
  CHECK_NOTHROW(detail::open_gpu("MIG-10111213-1415-1617-1819-1a1b1c1d1e1f", 0, "rank 0"));
  CHECK_NOTHROW(detail::open_gpu("", 0, "rank 0"));
}

TEST_CASE("a placed GPU that CUDA cannot use is an error with GPU, rank, CUDA's reason and the way out") {
  auto const open = [] { detail::open_gpu("0000:3b:00.0", 0, "rank 2 (host a, GPU 0000:3b:00.0)"); };
  {
    Fakes const fakes("no_device");
    auto const error = error_of(open);
    CHECK(error.fault() == Fault::device);
    CHECK(has(error.what(), "rank 2 (host a, GPU 0000:3b:00.0)"));
    CHECK(has(error.what(), "no CUDA-capable device is detected"));
    CHECK(has(error.what(), "--device=cpu"));
  }
  {
    Fakes const fakes("none_visible");
    CHECK(has(error_of(open).what(), "CUDA shows no GPU"));
  }
  {
    Fakes const fakes;
    auto const error = error_of([] { detail::open_gpu("0000:99:00.0", 0, "rank 2"); });
    CHECK(has(error.what(), "CUDA shows only 0000:3b:00.0"));
  }
  {
    Fakes const fakes;
    setenv("MUSTER_CUDA_LIBRARY", "/nowhere/libcuda.so.1", 1);
    auto const error = error_of(open);
    CHECK(error.fault() == Fault::device);
    CHECK(has(error.what(), "/nowhere/libcuda.so.1"));
    CHECK(has(error.what(), "is the NVIDIA driver installed"));
  }
  {
    Fakes const fakes("", "old");
    CHECK(has(error_of(open).what(), "2.19.3; 2.23 or later is needed"));
  }
  {
    Fakes const fakes;
    setenv("MUSTER_NCCL_LIBRARY", FAKE_CUDA_FILE, 1);  // a library, but not NCCL
    CHECK(has(error_of(open).what(), "it has no nccl"));
    setenv("MUSTER_NCCL_LIBRARY", "/nowhere/libnccl.so.2", 1);
    CHECK(has(error_of(open).what(), "is NCCL installed on this node?"));
  }
}

TEST_CASE("a world of one on a GPU: operations, split, barrier and an orderly end") {
  for (const char* init : {"", "slow_init"}) {
    Fakes const fakes("", init);
    int const aborted = count("fake_nccl_aborted");
    auto const gpu = detail::open_gpu("0000:3b:00.0", 0, "rank 0");
    {
      Communicator world(gpu->world(detail::Group(alone(2s), "world"), Deadline(2s)));
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
      CHECK(count("fake_nccl_live") == 2);
      gpu->finish(Deadline(2s));
      CHECK(error_of([&] { world.all_reduce(std::span<float>(values)); }).fault() == Fault::usage);
    }
    CHECK(count("fake_nccl_live") == 0);
    CHECK(count("fake_nccl_aborted") == aborted);
  }
}

TEST_CASE("each operation is one of NCCL's, or several in one of its groups") {
  Fakes const fakes;
  auto const gpu = detail::open_gpu("", 0, "rank 0");
  Communicator world(gpu->world(detail::Group(among(3), "world"), Deadline(2s)));
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
  world.all_gather_v(in.first(2), out, std::span<const std::size_t>(counts));
  CHECK(journal() == "( broadcast broadcast )");
  world.all_to_all(in, out);
  CHECK(journal() == "( send recv send recv send recv )");
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
  CHECK(count("fake_nccl_depth") == 0);
}

TEST_CASE("no operation waits for its stream, but for barrier and synchronize") {
  for (const char* how : {"", "slow_group"}) {
    Fakes const fakes("", how);
    auto const gpu = detail::open_gpu("", 0, "rank 0");
    Communicator world(gpu->world(detail::Group(alone(2s), "world"), Deadline(2s)));
    auto const queries = [] { return ask<int>(FAKE_CUDA_FILE, "fake_cuda_stream_queries"); };
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
    gpu->finish(Deadline(2s));
  }
}

TEST_CASE("a group that fails or hangs is told and leaves no group of NCCL's open") {
  {
    Fakes const fakes("", "fail_send");
    auto const gpu = detail::open_gpu("", 0, "rank 0");
    Communicator world(gpu->world(detail::Group(among(2), "world"), Deadline(1s)));
    std::vector<float> values(1);
    auto const error = error_of([&] {
      world.grouped([&] {
        world.send(std::span<const float>(values), 1);
        world.recv(std::span<float>(values), 1);
      });
    });
    CHECK(error.fault() == Fault::device);
    CHECK(has(error.what(), "grouped messages on communicator 'world', rank 0"));
    CHECK(count("fake_nccl_depth") == 0);
  }
  {
    Fakes const fakes("", "hang_group");
    auto const gpu = detail::open_gpu("", 0, "rank 0");
    Communicator world(gpu->world(detail::Group(alone(), "world"), Deadline(1s)));
    std::vector<float> values(1);
    auto const call = [&] { world.grouped([&] { world.all_reduce(std::span<float>(values)); }); };
    auto const error = error_of(call);
    CHECK(error.fault() == Fault::deadline);
    CHECK(has(error.what(), "all_reduce on communicator 'world'"));
    CHECK(error_of(call).fault() == Fault::usage);
  }
  CHECK(count("fake_nccl_live") == 0);
}

TEST_CASE("NCCL initialisation that hangs ends at the deadline, aborted, and says where") {
  Fakes const fakes("", "hang_init");
  int const aborted = count("fake_nccl_aborted");
  auto const gpu = detail::open_gpu("0000:3b:00.0", 0, "rank 0");
  auto const began = std::chrono::steady_clock::now();
  auto const error = error_of([&] { gpu->world(detail::Group(alone(), "world"), Deadline(300ms)); });
  CHECK(std::chrono::steady_clock::now() - began < 2s);
  CHECK(error.fault() == Fault::deadline);
  CHECK(has(error.what(), "NCCL initialisation on communicator 'world', rank 0 (host h0"));
  CHECK(has(error.what(), "300 ms"));
  CHECK(count("fake_nccl_aborted") == aborted + 1);
  CHECK(count("fake_nccl_live") == 0);
}

TEST_CASE("hanging initialisation on two ranks is one message, and a rank that did not come is named in it") {
  Fakes const fakes("", "hang_init");
  for (int ranks_that_init : {2, 1}) {
    Star star(2);
    auto const thrown = star.on_each([&](int rank, control::Plane& plane) {
      if (rank >= ranks_that_init) {
        // Brings the id round to its end but never reaches NCCL.
        plane.broadcast("NCCL id of 'world'", {0, 1}, 0, {}, 10s);
        auto const activity = plane.follow_activity("world");
        std::this_thread::sleep_for(1500ms);
        return;
      }
      auto context = std::make_shared<detail::JobContext>();
      context->roster = star.options.roster;
      context->rank = rank;
      context->operation_timeout = 300ms;
      context->plane = star.planes[static_cast<std::size_t>(rank)];
      auto const gpu = detail::open_gpu("", 0, "rank");
      gpu->world(detail::Group(context, "world"), Deadline(400ms));
    });
    REQUIRE(thrown[0]);
    CHECK(thrown[0]->fault() == Fault::deadline);
    CHECK(has(thrown[0]->what(),
              "NCCL initialisation (operation 1 on communicator 'world') was not done after 400 ms"));
    if (ranks_that_init == 2) {
      REQUIRE(thrown[1]);
      CHECK(thrown[0]->repeated() != thrown[1]->repeated());
      CHECK(has(thrown[0]->what(), "every rank entered it"));
    } else {
      CHECK(has(thrown[0]->what(), "not entered by rank 1 (host h1"));
    }
  }
  CHECK(count("fake_nccl_live") == 0);
}

TEST_CASE("ranks that share a GPU are named") {
  Fakes const fakes("", "shared_gpu");
  auto const gpu = detail::open_gpu("", 0, "rank 0");
  for (bool const shared : {true, false}) {
    auto context = std::make_shared<detail::JobContext>();
    context->roster = Star::roster_of(3);
    context->roster[1].host = context->roster[2].host = context->roster[0].host;
    if (shared) context->roster[2].gpu = context->roster[0].gpu;
    auto const error = error_of([&] { gpu->world(detail::Group(context, "world"), Deadline(1s)); });
    CHECK(error.fault() == Fault::device);
    CHECK(has(error.what(),
              "rank 0 (host h0, GPU 0000:00:00.0), rank 2 (host h0, GPU 0000:00:00.0) have one GPU") ==
          shared);
    CHECK(has(error.what(), "no route to host") != shared);  // NCCL's own detail
  }
}

TEST_CASE("NCCL's errors come with its own detail on one line") {
  {
    Fakes const fakes("", "fail_init");
    auto const gpu = detail::open_gpu("", 0, "rank 0");
    auto const error = error_of([&] { gpu->world(detail::Group(alone(), "world"), Deadline(1s)); });
    CHECK(error.fault() == Fault::device);
    CHECK(has(error.what(), "unhandled system error (socketStartConnect: no route to host)"));
    CHECK_FALSE(has(error.what(), "\n"));
  }
  {
    Fakes const fakes;
    auto const gpu = detail::open_gpu("", 0, "rank 0");
    Communicator world(gpu->world(detail::Group(alone(), "world"), Deadline(1s)));
    setenv("FAKE_NCCL", "fail_later", 1);
    setenv("FAKE_CUDA", "stream_busy", 1);
    auto const error = error_of([&] { world.synchronize(); });
    CHECK(has(error.what(), "unhandled system error"));
    std::vector<float> values(1);
    CHECK(error_of([&] { world.all_reduce(std::span<float>(values)); }).fault() == Fault::usage);
  }
  CHECK(count("fake_nccl_live") == 0);
}

TEST_CASE("a split that fails is an error, and NCCL may write to where its communicator was to go") {
  Fakes const fakes("", "fail_split");
  int const aborted = count("fake_nccl_aborted");
  auto const gpu = detail::open_gpu("", 0, "rank 0");
  Communicator world(gpu->world(detail::Group(alone(), "world"), Deadline(1s)));
  auto const error = error_of([&] { world.split(0); });
  CHECK(has(error.what(), "split on communicator 'world'"));
  CHECK(has(error.what(), "unhandled system error"));
  CHECK(count("fake_nccl_aborted") == aborted + 1);
  CHECK(count("fake_nccl_live") == 0);
}

TEST_CASE("communicators are aborted together, not one after another") {
  Fakes const fakes("", "slow_abort");
  auto const gpu = detail::open_gpu("", 0, "rank 0");
  Communicator world(gpu->world(detail::Group(alone(), "world"), Deadline(1s)));
  auto a = world.split(0);
  auto b = world.split(0);
  CHECK(count("fake_nccl_live") == 3);
  gpu->abandon();
  CHECK(count("fake_nccl_most_aborting") == 3);
  CHECK(count("fake_nccl_live") == 0);  // waited for
}

TEST_CASE("leaving ends the communicators together, not one after another") {
  Fakes const fakes("", "slow_destroy");
  int const aborted = count("fake_nccl_aborted");
  auto const gpu = detail::open_gpu("", 0, "rank 0");
  Communicator world(gpu->world(detail::Group(alone(), "world"), Deadline(1s)));
  auto a = world.split(0);
  auto b = world.split(0);
  gpu->finish(Deadline(5s));
  CHECK(count("fake_nccl_most_destroying") == 3);
  CHECK(count("fake_nccl_live") == 0);  // waited for
  CHECK(count("fake_nccl_aborted") == aborted);
}

TEST_CASE("those who are still in NCCL's initialisation are told from those who came out of it") {
  Fakes const fakes("", "hang_init");
  Star star(3);
  auto const thrown = star.on_each([&](int rank, control::Plane& plane) {
    if (rank == 2) {  // came out of it
      plane.broadcast("NCCL id of 'world'", {0, 1, 2}, 0, {}, 10s);
      auto const activity = plane.follow_activity("world");
      activity->number = 1;
      activity->operation = "NCCL initialisation";
      std::this_thread::sleep_for(1500ms);
      return;
    }
    auto context = std::make_shared<detail::JobContext>();
    context->roster = star.options.roster;
    context->rank = rank;
    context->operation_timeout = 300ms;
    context->plane = star.planes[static_cast<std::size_t>(rank)];
    auto const gpu = detail::open_gpu("", 0, "rank");
    gpu->world(detail::Group(context, "world"), Deadline(400ms));
  });
  REQUIRE((thrown[0] && thrown[1]));
  CHECK(thrown[0]->repeated() != thrown[1]->repeated());
  CHECK(has(thrown[0]->what(), "; still in it: rank 0 (host h0, GPU 0000:00:00.0), rank 1 (host h1"));
  CHECK_FALSE(has(thrown[0]->what(), "rank 2"));
}

TEST_CASE("a job that goes on without a rank keeps its communicators until the world has shrunk") {
  Fakes const fakes;
  int const aborted = count("fake_nccl_aborted");
  auto const gpu = detail::open_gpu("", 0, "rank 0");
  gpu->survive();
  CHECK_FALSE(gpu->can_shrink());
  auto const job = alone(1s);
  Communicator world(gpu->world(detail::Group(job, "world"), Deadline(1s)));
  auto const part = world.split(0);
  setenv("FAKE_CUDA", "stream_busy", 1);
  error_of([&] { world.synchronize(); });
  setenv("FAKE_CUDA", "", 1);
  CHECK(count("fake_nccl_aborted") == aborted);
  CHECK(gpu->can_shrink());
  Communicator smaller(gpu->shrink_world(detail::Group(job, "world"), {1}, Deadline(1s)));
  CHECK(count("fake_nccl_aborted") == aborted + 2);
  CHECK(count("fake_nccl_live") == 1);
  std::vector<float> values{1, 2};
  smaller.all_reduce(std::span<float>(values));
  smaller.synchronize();
  CHECK(error_of([&] { world.synchronize(); world.all_reduce(std::span<float>(values)); }).fault() == Fault::usage);
  gpu->end_all();
  CHECK(count("fake_nccl_live") == 0);
}

TEST_CASE("another thread than the one that joined may use the GPU") {
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
  on_thread([&] { world.emplace(gpu->world(detail::Group(alone(), "world"), Deadline(1s))); });
  on_thread([&] { world->split(0); });
  on_thread([&] { world->synchronize(); });
  on_thread([&] { world->barrier(); });
}

TEST_CASE("a stream that never ends or breaks is noticed in synchronize") {
  Fakes const fakes;
  auto const gpu = detail::open_gpu("", 0, "rank 0");
  {
    Communicator world(gpu->world(detail::Group(alone(), "world"), Deadline(1s)));
    setenv("FAKE_CUDA", "stream_busy", 1);
    auto const error = error_of([&] { world.barrier(); });
    CHECK(error.fault() == Fault::deadline);
    CHECK(has(error.what(), "barrier on communicator 'world'"));
  }
  setenv("FAKE_CUDA", "", 1);
  {
    Communicator world(gpu->world(detail::Group(alone(), "world"), Deadline(1s)));
    setenv("FAKE_CUDA", "stream_error", 1);
    CHECK(has(error_of([&] { world.synchronize(); }).what(), "illegal memory access"));
  }
  CHECK(count("fake_nccl_live") == 0);
}
