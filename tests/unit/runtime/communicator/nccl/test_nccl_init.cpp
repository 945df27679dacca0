// SPDX-License-Identifier: Apache-2.0
// Creation of NCCL communicators, on fakes of CUDA and NCCL: ids, connections, the first collective, and the
// time of each phase.
#include <cstdlib>
#include <fstream>

#include "communicator/nccl/gpu.hpp"
#include "communicator/nccl/nccl_ids.hpp"
#include "communicator/nccl/nccl_runtime_connect.hpp"
#include "runtime/communicator/contexts.hpp"
#include "runtime/control_plane/thrown_errors.hpp"
#include "runtime/fakes/fakes.hpp"

using namespace muster;
using namespace std::chrono_literals;
using detail::ranks_with_id;

namespace {

// A world whose ranks are threads.
struct World {
  explicit World(int ranks) : fixture(ranks) {
    for (int r = 0; r < ranks; ++r) contexts.push_back(make_connected_context(fixture, r, 2s));
  }
  // Creates the world communicator on every rank and passes it to `then`.
  std::vector<std::optional<Error>> build(
      std::chrono::milliseconds deadline,
      const std::function<void(detail::CommunicatorBackend&)>& then = {}) {
    return fixture.run_on_all([&](int rank, control::ControlPlane&) {
      auto const gpu = detail::open_gpu("", 0, "rank");
      auto const world = gpu->world(
          detail::CommunicatorGroup(contexts[static_cast<std::size_t>(rank)], "world"), Deadline(deadline));
      if (then) then(*world);
      gpu->finalize(Deadline(2s));
    });
  }

  ControlPlaneFixture fixture;
  std::vector<std::shared_ptr<detail::JobContext>> contexts;
};

int occurrences(const std::string& text, const std::string& word) {
  int found = 0;
  for (auto at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) ++found;
  return found;
}

}  // namespace

TEST_CASE("each NCCL id comes from the first of the ranks that share it") {
  CHECK(ranks_with_id(1, 1) == std::vector<int>{0});
  CHECK(ranks_with_id(7, 3) == std::vector<int>{0, 3, 5});  // NCCL User Guide: ranks 0-2, 3-4 and 5-6
  CHECK(ranks_with_id(256, 2) == std::vector<int>{0, 128});
  CHECK(ranks_with_id(4, 4) == std::vector<int>{0, 1, 2, 3});
  // The User Guide's rule for a single rank.
  auto const has_root = [](int rank, int ranks, int ids) {
    int const more = ranks % ids;
    int const each = ranks / ids;
    int const limit = more * (each + 1);
    return rank < limit ? rank % (each + 1) == 0 : (rank - limit) % each == 0;
  };
  for (int ranks : {1, 2, 127, 129, 1000, 1025}) {
    for (int ids : {1, 2, 3, 8}) {
      if (ids > ranks) continue;
      auto const roots = ranks_with_id(ranks, ids);
      for (int rank = 0; rank < ranks; ++rank) {
        bool const root = std::find(roots.begin(), roots.end(), rank) != roots.end();
        REQUIRE(root == has_root(rank, ranks, ids));
      }
    }
  }
}

TEST_CASE("MUSTER_NCCL_RANKS_PER_ID sets how many ranks share one NCCL id") {
  unsetenv("MUSTER_NCCL_RANKS_PER_ID");
  CHECK(detail::ranks_per_id() == 128);
  setenv("MUSTER_NCCL_RANKS_PER_ID", "2", 1);
  CHECK(detail::ranks_per_id() == 2);
  for (const char* wrong : {"0", "-3", "two", "2x", "99999999999"}) {
    setenv("MUSTER_NCCL_RANKS_PER_ID", wrong, 1);
    CHECK(catch_error([] { detail::ranks_per_id(); }).code() == ErrorCode::environment);
  }
  unsetenv("MUSTER_NCCL_RANKS_PER_ID");
}

TEST_CASE("when there are several ids, they reach every rank in the same order; few ranks share one id") {
  Fakes const fakes;
  journal();
  {
    World world(4);
    check_no_errors(world.build(5s));
    CHECK(occurrences(journal(), "init_") == 0);
  }
  setenv("MUSTER_NCCL_RANKS_PER_ID", "2", 1);
  {
    World world(5);
    check_no_errors(world.build(5s));
    auto const log = journal();
    auto const at = log.find("init_3_ids_");
    INFO(log);
    REQUIRE(at != std::string::npos);
    auto const first = log.substr(at, log.find(' ', at) - at);
    CHECK(occurrences(first, "_") == 5);
    CHECK(occurrences(log, first) == 5);
    // Three different ids.
    auto const numbers = first.substr(std::string("init_3_ids_").size());
    CHECK(numbers.substr(0, numbers.find('_')) != numbers.substr(numbers.rfind('_') + 1));
  }
  unsetenv("MUSTER_NCCL_RANKS_PER_ID");
  CHECK(nccl_count("fake_nccl_live") == 0);
}

TEST_CASE("when a rank sends no id, the error at the deadline names it") {
  Fakes const fakes;
  setenv("MUSTER_NCCL_RANKS_PER_ID", "1", 1);
  World world(3);
  auto const thrown = world.fixture.run_on_all([&](int rank, control::ControlPlane&) {
    if (rank == 2) return std::this_thread::sleep_for(1s);
    auto const gpu = detail::open_gpu("", 0, "rank");
    gpu->world(detail::CommunicatorGroup(world.contexts[static_cast<std::size_t>(rank)], "world"),
               Deadline(400ms));
  });
  unsetenv("MUSTER_NCCL_RANKS_PER_ID");
  REQUIRE(thrown[0]);
  CHECK(thrown[0]->code() == ErrorCode::deadline);
  CHECK(has(thrown[0]->what(), "NCCL ids of 'world'"));
  CHECK(has(thrown[0]->what(), "rank 2 (host h2"));
}

TEST_CASE("a new communicator has done its first collective, and so has each part of a split") {
  Fakes const fakes;
  journal();
  World world(2);
  check_no_errors(world.build(5s));
  CHECK(occurrences(journal(), "all_reduce") == 2);  // one on each rank
  check_no_errors(world.build(5s, [](detail::CommunicatorBackend& its) { its.split(0, 0); }));
  CHECK(occurrences(journal(), "all_reduce") == 4);
  check_no_errors(world.build(5s, [](detail::CommunicatorBackend& its) { its.split(its.rank(), 0); }));
  CHECK(occurrences(journal(), "all_reduce") == 2);  // a single rank has nothing to connect
}

TEST_CASE(
    "when the first collective does not complete, it fails at the deadline and the communicator is aborted") {
  Fakes const fakes("stream_busy");
  World world(2);
  auto const thrown = world.build(2s);
  REQUIRE(thrown[0]);
  CHECK(thrown[0]->code() == ErrorCode::deadline);
  CHECK(has(thrown[0]->what(), "first all_reduce (operation 2 on communicator 'world')"));
  CHECK(nccl_count("fake_nccl_live") == 0);
}

TEST_CASE("NCCL connects eagerly, unless the user sets otherwise") {
  Fakes const fakes;
  std::string const file = "nccl_start_test.conf";
  for (auto const& [text, later] : {std::pair{"", 0}, {"NCCL_DEBUG=WARN\nNCCL_RUNTIME_CONNECT=1\n", 1}}) {
    std::ofstream(file) << text;
    setenv("NCCL_CONF_FILE", file.c_str(), 1);
    unsetenv("NCCL_RUNTIME_CONNECT");
    detail::set_eager_connect();
    CHECK(detail::lazy_connect() == later);
    CHECK((std::getenv("NCCL_RUNTIME_CONNECT") != nullptr) == (later == 0));
  }
  setenv("NCCL_RUNTIME_CONNECT", "1", 1);
  detail::set_eager_connect();
  CHECK(detail::lazy_connect() == 1);
  std::remove(file.c_str());
  unsetenv("NCCL_CONF_FILE");
}

TEST_CASE("when one rank connects lazily, the ranks fail before NCCL waits forever") {
  Fakes const fakes;
  ControlPlaneFixture fixture(2);
  auto const thrown = fixture.run_on_all([&](int rank, control::ControlPlane& plane) {
    if (rank == 0) {  // a rank 0 whose NCCL connects lazily
      control::Blob blob(1 + sizeof(ncclUniqueId), 1);
      plane.broadcast("NCCL id of 'world'", {0, 1}, 0, blob, 5s);
      plane.barrier("wait", 5s);
      return;
    }
    auto const gpu = detail::open_gpu("", 0, "rank");
    gpu->world(detail::CommunicatorGroup(make_connected_context(fixture, rank, 2s), "world"), Deadline(5s));
  });
  REQUIRE(thrown[1]);
  CHECK(thrown[1]->code() == ErrorCode::environment);
  CHECK(has(thrown[1]->what(), "NCCL_RUNTIME_CONNECT is 0 here and 1 on rank 0"));
  CHECK(nccl_count("fake_nccl_live") == 0);
}

TEST_CASE("each phase of NCCL's initialisation is timed") {
  for (const char* how : {"", "slow_init"}) {
    Fakes const fakes("", how);
    World world(2);
    check_no_errors(world.build(5s));
    for (const auto& context : world.contexts) {
      const auto& timings = *context->timings;
      CHECK(timings.nccl_id.count() > 0);
      CHECK(timings.nccl_init.count() > 0);
      CHECK(timings.first_collective.count() > 0);
    }
  }
}

TEST_CASE("when a phase of NCCL's initialisation is slow, only its own time grows") {
  for (auto const& [how, phase] : {std::pair{"late_id", &Timings::nccl_id},
                                   {"late_init", &Timings::nccl_init},
                                   {"late_all_reduce", &Timings::first_collective}}) {
    INFO(how);
    Fakes const fakes("", how);
    World world(2);
    auto const began = std::chrono::steady_clock::now();
    check_no_errors(world.build(20s));
    auto const whole = std::chrono::steady_clock::now() - began;
    const auto& timings = *world.contexts[0]->timings;  // rank 0 also creates the id
    CHECK(timings.*phase >= 300ms);
    CHECK(timings.nccl_id + timings.nccl_init + timings.first_collective <= whole);
  }
}

TEST_CASE("when a phase of NCCL's initialisation hangs, its time shows which phase it was") {
  Fakes const fakes("", "hang_init");
  World world(2);
  nccl_count("fake_nccl_shortest_hang");  // forgets the hangs of other tests
  world.build(1s);
  std::chrono::milliseconds const hang{nccl_count("fake_nccl_shortest_hang")};
  const auto& timings = *world.contexts[0]->timings;
  CHECK(hang.count() > 0);
  CHECK(timings.nccl_init >= hang);
  CHECK(timings.first_collective.count() == 0);
}
