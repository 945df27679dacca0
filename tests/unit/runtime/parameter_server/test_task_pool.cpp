// SPDX-License-Identifier: Apache-2.0
#include "catch.hpp"
#include "parameter_server/slice_updates.hpp"
#include "parameter_server/task_pool.hpp"

using namespace muster;
using namespace muster::parameter_server;

using Sums = std::vector<double>;

TEST_CASE("tasks are dealt in order, up to a clock") {
  TaskPool pool(2, {});
  CHECK(pool.take(1, 0) == ParameterTask{0, 0});
  CHECK(pool.take(2, 0) == ParameterTask{0, 1});
  CHECK_FALSE(pool.take(1, 0));
  CHECK(pool.take(1, 1) == ParameterTask{1, 0});
  pool.complete(1, {1, 0}, Sums{5});
  pool.complete(2, {0, 1}, Sums{2});
  CHECK(pool.completed() == 0);
  CHECK(pool.missing_workers() == std::set<int>{1});
  pool.complete(1, {0, 0}, Sums{1, 1});
  pool.complete(1, {0, 0}, Sums{1, 1});
  CHECK(pool.completed() == 1);
  CHECK(*pool.sums(0) == Sums{3, 1});
  CHECK(pool.missing_workers().empty());
  CHECK_THROWS_AS(pool.complete(1, {1, 1}, Sums{}), Error);
  CHECK_THROWS_AS(pool.complete(1, {1, 2}, Sums{}), Error);
}

TEST_CASE("tasks of a removed worker are taken again, the oldest first") {
  TaskPool pool(2, {});
  for (int i = 0; i < 3; ++i) CHECK(pool.take(1, 9));
  pool.complete(1, {0, 0}, Sums{});
  CHECK_FALSE(pool.has_returned(9));
  pool.remove_worker(1);
  CHECK(pool.has_returned(0));
  CHECK(pool.take(2, 9) == ParameterTask{0, 1});
  CHECK_FALSE(pool.has_returned(0));
  CHECK(pool.take(2, 9) == ParameterTask{1, 0});
  CHECK(pool.take(2, 9) == ParameterTask{1, 1});
}

TEST_CASE("fixed tasks of a removed worker count as done") {
  TaskPool pool(2, {4, 5});
  pool.complete(4, {0, 0}, Sums{1});
  pool.complete(4, {1, 0}, Sums{2});
  CHECK(pool.missing_workers() == std::set<int>{5});
  CHECK_THROWS_AS(pool.complete(4, {0, 1}, Sums{}), Error);
  pool.remove_worker(5);
  CHECK(pool.completed() == 2);
  pool.complete(4, {2, 0}, Sums{3});
  CHECK(pool.completed() == 3);
}

TEST_CASE("sums of a rank without tasks belong to the next clock") {
  TaskPool pool(1, {1});
  pool.add_sums(Sums{0, 7});
  pool.complete(1, {0, 0}, Sums{1});
  pool.complete(1, {1, 0}, Sums{1});
  CHECK(*pool.sums(0) == Sums{1, 7});
  CHECK(*pool.sums(1) == Sums{1});
}

TEST_CASE("the sums of old clocks are dropped") {
  TaskPool pool(1, {1});
  for (std::uint64_t clock = 0; clock <= max_kept_sums; ++clock)
    pool.complete(1, {clock, 0}, Sums{static_cast<double>(clock)});
  CHECK(pool.completed() == max_kept_sums + 1);
  CHECK(pool.sums(0) == nullptr);
  CHECK(pool.sums(max_kept_sums + 1) == nullptr);
  REQUIRE(pool.sums(1) != nullptr);
  CHECK(*pool.sums(1) == Sums{1});
  CHECK(*pool.sums(max_kept_sums) == Sums{double{max_kept_sums}});
}

TEST_CASE("a gradient that comes again changes nothing, and a synchronous one has its clock") {
  std::vector<float> updates;
  auto const record = [&](const ParameterUpdate& update) { updates.push_back(update.gradient[0]); };
  SliceUpdates synchronous(2, true, record);
  synchronous.add({0, 1}, {1}, {});
  synchronous.add({0, 1}, {1}, {});
  CHECK(updates.empty());
  CHECK_THROWS_AS(synchronous.add({1, 0}, {1}, {}), Error);
  synchronous.add({0, 0}, {2}, {});
  synchronous.add({0, 0}, {2}, {});
  CHECK(updates == std::vector<float>{3});
  CHECK(synchronous.completed() == 1);
  updates.clear();
  SliceUpdates free(2, false, record);
  free.add({3, 0}, {1}, {});
  free.add({3, 0}, {1}, {});
  free.add({0, 1}, {2}, {});
  CHECK(updates == std::vector<float>{1, 2});
  CHECK(free.completed() == 0);
  CHECK_THROWS_AS(free.add({std::uint64_t{1} << 40, 0}, {1}, {}), Error);
}
