// SPDX-License-Identifier: Apache-2.0
// How NCCL's communicators come to be, on test doubles of CUDA and NCCL: ids, connections, the first
// collective, what each phase took.
#include <cstdlib>
#include <fstream>

#include "communicator/nccl/gpu.hpp"
#include "communicator/nccl/nccl_runtime_connect.hpp"
#include "communicator/nccl/nccl_ids.hpp"
#include "contexts.hpp"
#include "fakes.hpp"

using namespace muster;
using namespace std::chrono_literals;
using detail::ranks_with_id;

namespace {

// A world of several ranks, which are threads.
struct World {
  explicit World(int ranks) : star(ranks) {
    for (int r = 0; r < ranks; ++r) contexts.push_back(context_of(star, r, 2s));
  }
  // Builds the world communicator on every rank, and `then` on each.
  std::vector<std::optional<Error>> build(std::chrono::milliseconds deadline,
                                          const std::function<void(detail::CommunicatorBackend&)>& then = {}) {
    return star.on_each([&](int rank, control::ControlPlane&) {
      auto const gpu = detail::open_gpu("", 0, "rank");
      auto const world =
          gpu->world(detail::CommunicatorGroup(contexts[static_cast<std::size_t>(rank)], "world"), Deadline(deadline));
      if (then) then(*world);
      gpu->finish(Deadline(2s));
    });
  }

  Star star;
  std::vector<std::shared_ptr<detail::JobContext>> contexts;
};

int occurrences(const std::string& text, const std::string& word) {
  int found = 0;
  for (auto at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) ++found;
  return found;
}

void require_none(const std::vector<std::optional<Error>>& thrown) {
  for (const auto& error : thrown) {
    INFO((error ? error->what() : ""));
    REQUIRE_FALSE(error);
  }
}

}  // namespace

TEST_CASE("each of NCCL's ids comes from the first of the ranks that meet at it") {
  CHECK(ranks_with_id(1, 1) == std::vector<int>{0});
  CHECK(ranks_with_id(7, 3) == std::vector<int>{0, 3, 5});  // NCCL User Guide: ranks 0-2, 3-4 and 5-6
  CHECK(ranks_with_id(256, 2) == std::vector<int>{0, 128});
  CHECK(ranks_with_id(4, 4) == std::vector<int>{0, 1, 2, 3});
  // The rule that the User Guide gives for a rank by itself.
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

TEST_CASE("how many ranks meet at one of NCCL's ids") {
  unsetenv("MUSTER_NCCL_RANKS_PER_ID");
  CHECK(detail::ranks_per_id() == 128);
  setenv("MUSTER_NCCL_RANKS_PER_ID", "2", 1);
  CHECK(detail::ranks_per_id() == 2);
  for (const char* wrong : {"0", "-3", "two", "2x", "99999999999"}) {
    setenv("MUSTER_NCCL_RANKS_PER_ID", wrong, 1);
    CHECK(error_of([] { detail::ranks_per_id(); }).code() == ErrorCode::environment);
  }
  unsetenv("MUSTER_NCCL_RANKS_PER_ID");
}

TEST_CASE("several ids reach every rank in one order, and few ranks share one") {
  Fakes const fakes;
  journal();
  {
    World world(4);
    require_none(world.build(5s));
    CHECK(occurrences(journal(), "init_") == 0);
  }
  setenv("MUSTER_NCCL_RANKS_PER_ID", "2", 1);
  {
    World world(5);
    require_none(world.build(5s));
    auto const told = journal();
    auto const at = told.find("init_3_ids_");
    INFO(told);
    REQUIRE(at != std::string::npos);
    auto const first = told.substr(at, told.find(' ', at) - at);
    CHECK(occurrences(first, "_") == 5);
    CHECK(occurrences(told, first) == 5);
    // Three ids, none twice.
    auto const numbers = first.substr(std::string("init_3_ids_").size());
    CHECK(numbers.substr(0, numbers.find('_')) != numbers.substr(numbers.rfind('_') + 1));
  }
  unsetenv("MUSTER_NCCL_RANKS_PER_ID");
  CHECK(count("fake_nccl_live") == 0);
}

TEST_CASE("a rank that brings no id is named at the deadline") {
  Fakes const fakes;
  setenv("MUSTER_NCCL_RANKS_PER_ID", "1", 1);
  World world(3);
  auto const thrown = world.star.on_each([&](int rank, control::ControlPlane&) {
    if (rank == 2) return std::this_thread::sleep_for(1s);
    auto const gpu = detail::open_gpu("", 0, "rank");
    gpu->world(detail::CommunicatorGroup(world.contexts[static_cast<std::size_t>(rank)], "world"), Deadline(400ms));
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
  require_none(world.build(5s));
  CHECK(occurrences(journal(), "all_reduce") == 2);  // one on each rank
  require_none(world.build(5s, [](detail::CommunicatorBackend& its) { its.split(0, 0); }));
  CHECK(occurrences(journal(), "all_reduce") == 4);
  require_none(world.build(5s, [](detail::CommunicatorBackend& its) { its.split(its.rank(), 0); }));
  CHECK(occurrences(journal(), "all_reduce") == 2);  // alone nothing is to be connected
}

TEST_CASE("a first collective that does not end is told at the deadline, and the communicator aborted") {
  Fakes const fakes("stream_busy");
  World world(2);
  auto const thrown = world.build(400ms);
  REQUIRE(thrown[0]);
  CHECK(thrown[0]->code() == ErrorCode::deadline);
  CHECK(has(thrown[0]->what(), "first all_reduce (operation 2 on communicator 'world')"));
  CHECK(count("fake_nccl_live") == 0);
}

TEST_CASE("NCCL connects at the start, unless the user says otherwise") {
  Fakes const fakes;
  auto const home = std::string(std::getenv("HOME") != nullptr ? std::getenv("HOME") : "");
  std::string const file = "nccl_start_test.conf";
  setenv("HOME", "/nowhere", 1);
  for (auto const& [text, later] : {std::pair{"", 0}, {"NCCL_DEBUG=WARN\nNCCL_RUNTIME_CONNECT=1\n", 1}}) {
    std::ofstream(file) << text;
    setenv("NCCL_CONF_FILE", file.c_str(), 1);
    unsetenv("NCCL_RUNTIME_CONNECT");
    detail::connect_at_start();
    CHECK(detail::connects_later() == later);
    CHECK((std::getenv("NCCL_RUNTIME_CONNECT") != nullptr) == (later == 0));
  }
  setenv("NCCL_RUNTIME_CONNECT", "1", 1);
  detail::connect_at_start();
  CHECK(detail::connects_later() == 1);
  std::remove(file.c_str());
  unsetenv("NCCL_CONF_FILE");
  setenv("HOME", home.c_str(), 1);
}

TEST_CASE("ranks of which one connects later are refused before NCCL waits for ever") {
  Fakes const fakes;
  Star star(2);
  auto const thrown = star.on_each([&](int rank, control::ControlPlane& plane) {
    if (rank == 0) {  // a rank 0 whose NCCL connects later
      control::Blob blob(1 + sizeof(ncclUniqueId), 1);
      plane.broadcast("NCCL id of 'world'", {0, 1}, 0, blob, 5s);
      plane.barrier("wait", 5s);
      return;
    }
    auto const gpu = detail::open_gpu("", 0, "rank");
    gpu->world(detail::CommunicatorGroup(context_of(star, rank, 2s), "world"), Deadline(5s));
  });
  REQUIRE(thrown[1]);
  CHECK(thrown[1]->code() == ErrorCode::environment);
  CHECK(has(thrown[1]->what(), "NCCL_RUNTIME_CONNECT is 0 here and 1 on rank 0"));
  CHECK(count("fake_nccl_live") == 0);
}

TEST_CASE("each phase of NCCL's start is timed") {
  for (const char* how : {"", "slow_init"}) {
    Fakes const fakes("", how);
    World world(2);
    require_none(world.build(5s));
    for (const auto& context : world.contexts) {
      const auto& timings = *context->timings;
      CHECK(timings.nccl_id.count() > 0);
      CHECK(timings.nccl_init.count() > 0);
      CHECK(timings.first_collective.count() > 0);
    }
  }
}

TEST_CASE("what takes long in NCCL's start is in the time of its phase, and in no other's") {
  for (auto const& [how, phase] : {std::pair{"late_id", &Timings::nccl_id},
                                   {"late_init", &Timings::nccl_init},
                                   {"late_all_reduce", &Timings::first_collective}}) {
    INFO(how);
    Fakes const fakes("", how);
    World world(2);
    auto const began = std::chrono::steady_clock::now();
    require_none(world.build(20s));
    auto const whole = std::chrono::steady_clock::now() - began;
    const auto& timings = *world.contexts[0]->timings;  // which makes the id, too
    CHECK(timings.*phase >= 300ms);
    CHECK(timings.nccl_id + timings.nccl_init + timings.first_collective <= whole);
  }
}

TEST_CASE("a hang is in the time of its phase: whoever looks after the error sees which it was") {
  Fakes const fakes("", "hang_init");
  World world(2);
  count("fake_nccl_shortest_hang");  // those of other tests
  world.build(1s);
  std::chrono::milliseconds const hang{count("fake_nccl_shortest_hang")};
  const auto& timings = *world.contexts[0]->timings;
  CHECK(hang.count() > 0);
  CHECK(timings.nccl_init >= hang);
  CHECK(timings.first_collective.count() == 0);
}
