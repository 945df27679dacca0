// SPDX-License-Identifier: Apache-2.0
// A job's roster, communicators, timings and sections, on as many ranks as the launcher started.
#include <cstdint>
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

#include "catch.hpp"
#include "runtime/scenarios/errors.hpp"
#include "runtime/scenarios/world.hpp"

using namespace muster;

TEST_CASE("the roster is the same on every rank, and ranks are mapped to hosts") {
  auto& here = job();
  REQUIRE(static_cast<int>(here.roster().size()) == here.size());
  std::string text;
  for (const auto& hello : here.roster())
    text += hello.host + hello.boot_id + hello.cpus + std::to_string(hello.pid) + ";";
  auto const hash = static_cast<std::uint64_t>(std::hash<std::string>{}(text));
  std::vector<std::uint64_t> low{hash};
  std::vector<std::uint64_t> high{hash};
  auto world = here.host_world();
  world.all_reduce(std::span<std::uint64_t>(low), Reduction::min);
  world.all_reduce(std::span<std::uint64_t>(high), Reduction::max);
  REQUIRE(low[0] == high[0]);
  REQUIRE(here.local_rank() < here.local_size());
  REQUIRE(here.host_index() < here.host_count());
  here.barrier("roster test");
}

TEST_CASE("intra_node() and inter_node() are communicators of their own") {
  auto const world = job().world();
  auto node = job().intra_node();
  REQUIRE(node.rank() == job().local_rank());
  REQUIRE(node.size() == job().local_size());
  auto across = job().inter_node();
  REQUIRE(across.rank() == job().host_index());
  REQUIRE(across.size() <= job().host_count());
  std::vector<std::int32_t> sum{1};
  node.all_reduce(std::span<std::int32_t>(sum));
  across.all_reduce(std::span<std::int32_t>(sum));
  REQUIRE(sum.at(0) == world.size());  // the same number of ranks on each host
  REQUIRE(job().intra_node().size() == node.size());
}

TEST_CASE("the job's store has the values of all ranks, and a get that nothing answers names its key") {
  using namespace std::chrono_literals;
  auto store = job().store();
  auto const own = "rank " + std::to_string(job().rank());
  store.put(own, own);
  for (int rank = 0; rank < job().size(); ++rank) {
    auto const other = "rank " + std::to_string(rank);
    REQUIRE(store.get(other) == other);
  }
  store.add("sum", job().rank() + 1);
  store.append("text", "ab");
  auto const first = store.compare_set("first", "", own);
  job().barrier("store test");
  REQUIRE(store.add("sum", 0) == job().size() * (job().size() + 1) / 2);
  REQUIRE(store.get("text", 0ms).size() == 2 * static_cast<std::size_t>(job().size()));
  REQUIRE(store.compare_set("first", "nothing", "x") == first);
  REQUIRE_FALSE(store.compare_set("none", "nothing", "x"));
  REQUIRE((store.check("first") && !store.check("none") && !store.delete_key("none")));
  REQUIRE(store.num_keys() == static_cast<std::size_t>(job().size()) + 3);
  auto const fails = [](ErrorCode code, const std::string& what, auto call) {
    auto const error = catch_error(call);
    REQUIRE(error.code() == code);
    REQUIRE(error.what() == what);
  };
  fails(ErrorCode::deadline, "store: get: no rank put 'none' within 1 ms", [&] { store.get("none", 1ms); });
  fails(ErrorCode::usage, "store: add: the value of 'text', or its sum with 1, is not an integer of 64 bits",
        [&] { store.add("text", 1); });
  fails(ErrorCode::usage, "store: put: the value of 'x' has 65537 bytes, and the limit is 65536",
        [&] { store.put("x", std::string(Store::max_value_bytes + 1, 'v')); });
  fails(ErrorCode::usage,
        "store: put: the key '" + std::string(40, 'k') + "…' has 251 bytes, and the limit is 250",
        [&] { store.put(std::string(Store::max_key_bytes + 1, 'k'), ""); });
  fails(ErrorCode::usage, "store: append: the value of 'text' would have more than 65536 bytes",
        [&] { store.append("text", std::string(Store::max_value_bytes, 'v')); });
  job().barrier("end of the store test");
}

TEST_CASE("the phases of the join are timed") {
  job().host_world();
  const auto& timings = job().timings();
  REQUIRE(timings.bootstrap.count() > 0);
  REQUIRE(timings.exchange.count() > 0);
  REQUIRE((timings.plane.count() > 0) == (job().size() > 1));
  REQUIRE(timings.join >= timings.bootstrap + timings.gpu + timings.exchange + timings.plane);
  REQUIRE(timings.host_world.count() > 0);
}

TEST_CASE(
    "a section runs on rank 0 only, the other ranks wait for it, and its error is thrown on all ranks") {
  auto& here = job();
  int ran = 0;
  here.on_rank_0("count", [&] { ++ran; });
  CHECK(ran == (here.rank() == 0 ? 1 : 0));
  for (int i = 0; i < 2; ++i) {
    auto const error = catch_error(
        [&] { here.on_rank_0("save", [] { throw Error(ErrorCode::environment, "the disk is full"); }); });
    CHECK(error.code() == ErrorCode::environment);
    CHECK(std::string(error.what()) == "the disk is full");
    CHECK(error.reported_elsewhere() == (here.rank() != 0));
  }
  auto const error =
      catch_error([&] { here.on_rank_0("read", [] { throw std::runtime_error("no file"); }); });
  CHECK(error.code() == ErrorCode::system);
  CHECK(std::string(error.what()) == "read: no file");
  auto const odd = catch_error([&] { here.on_rank_0("odd", [] { throw 7; }); });
  CHECK(std::string(odd.what()) == "odd: the section threw something that is not a std::exception");
  here.barrier("after the sections");
}
