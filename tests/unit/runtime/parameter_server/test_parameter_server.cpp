// SPDX-License-Identifier: Apache-2.0
// What workers read of what they and others pushed: staleness, and the fixed order of additions.
#include <atomic>
#include <chrono>
#include <mutex>
#include <random>
#include <set>
#include <thread>

#include "catch.hpp"
#include "reducer/chunk_tree.hpp"
#include "server_fixture.hpp"

using namespace muster;
using namespace muster::parameter_server;

namespace {

using Values = ServerFixture::Values;

Values random_gradient(std::uint64_t clock, std::uint64_t index, std::size_t size) {
  std::mt19937 generator(static_cast<unsigned>(1000 * clock + index));
  std::normal_distribution<float> normal;
  Values values(size);
  for (auto& value : values) value = normal(generator);
  return values;
}

// The sum of a clock's gradients as the reducer adds them.
Values tree_sum(std::uint64_t clock, std::uint64_t tasks, std::size_t size) {
  detail::ChunkTree tree(tasks);
  std::vector<Values> sums;
  for (std::uint64_t i = 0; i < tasks; ++i) {
    auto const step = tree.push({0, i});
    sums.resize(step.slot + 1);
    sums[step.slot] = random_gradient(clock, i, size);
    for (std::size_t a = 0; a < step.additions; ++a)
      for (std::size_t e = 0; e < size; ++e) sums[step.slot - a - 1][e] += sums[step.slot - a][e];
  }
  return sums.front();
}

}  // namespace

// Each worker adds 1 to an element of its own, so that a read shows whose updates it saw.
TEST_CASE("a read keeps the staleness, and workers see their own updates") {
  constexpr std::uint64_t clocks = 12;
  auto const staleness = GENERATE(std::optional<std::uint64_t>(0), std::optional<std::uint64_t>(2),
                                  std::optional<std::uint64_t>());
  constexpr int servers = 2, workers = 3;
  constexpr std::size_t width = 4;  // elements of each worker, on both servers
  ServerFixture fixture(width * workers, server_options(servers, staleness), servers + workers);
  std::array<std::atomic<std::uint64_t>, workers> clock_of{};
  std::atomic<int> violations{0};
  std::atomic<std::uint64_t> furthest{0};
  auto const errors = fixture.run_workers([&](Client& client, std::uint64_t worker) {
    std::mt19937 generator(static_cast<unsigned>(17 + worker));
    Values parameters(width * workers), gradient(width * workers);
    for (std::size_t i = worker; i < gradient.size(); i += workers) gradient[i] = 1;
    for (std::uint64_t clock = 0; clock < clocks; ++clock) {
      client.pull(clock, parameters);
      auto const least = staleness && clock > *staleness ? clock - *staleness : 0;
      for (std::size_t i = 0; i < parameters.size(); ++i) {
        auto const seen = static_cast<std::uint64_t>(parameters[i]);
        auto const other = i % workers;
        if (other == worker ? seen != clock : seen < least) ++violations;
        if (staleness == 0 && seen != clock) ++violations;
        if (clock_of[other] < least) ++violations;
        furthest = std::max<std::uint64_t>(furthest, clock - std::min<std::uint64_t>(clock, seen));
      }
      std::this_thread::sleep_for(std::chrono::microseconds(generator() % 2000));
      ++clock_of[worker];
      push(client, {clock, worker}, gradient);
    }
  });
  CHECK(errors.empty());
  CHECK(violations == 0);
  CHECK(furthest <= staleness.value_or(clocks));
  CHECK(fixture.parameters() == Values(width * workers, float{clocks}));
}

TEST_CASE("synchronous updates have the same bits for any number of workers and servers") {
  constexpr std::uint64_t tasks = 5, clocks = 3;
  constexpr std::size_t size = 37;
  Values expected(size);
  for (std::uint64_t clock = 0; clock < clocks; ++clock) {
    auto const sum = tree_sum(clock, tasks, size);
    for (std::size_t i = 0; i < size; ++i) expected[i] += sum[i];
  }
  auto const [servers, workers] =
      GENERATE(std::pair(1, 1), std::pair(1, 3), std::pair(2, 2), std::pair(3, 4));
  ServerFixture fixture(size, server_options(servers, 0, true, tasks), servers + workers);
  std::mutex mutex;
  std::set<std::vector<double>> totals;
  auto const errors = fixture.run_workers([&](Client& client, std::uint64_t worker) {
    for (std::uint64_t clock = 0; clock < clocks; ++clock) {
      while (auto const task = client.take(clock)) {
        auto const gradient = random_gradient(task->clock, task->index, size);
        // In parts, the last first; the first worker pushes everything twice.
        for (int repeat = worker == 0 ? 2 : 1; repeat > 0; --repeat) {
          client.push_part(*task, 20, std::span(gradient).subspan(20));
          client.push_part(*task, 0, std::span(gradient).first(20));
          client.end_push(*task, {}, std::vector{0.1 * static_cast<double>(task->index), 1.0});
        }
      }
      auto const sums = client.wait_for(clock);
      std::lock_guard const lock(mutex);
      totals.insert(sums.value());
    }
  });
  CHECK(errors.empty());
  CHECK(fixture.parameters() == expected);
  CHECK(totals == std::set<std::vector<double>>{{0.0 + 0.1 + 0.2 + 0.1 * 3 + 0.4, 5.0}});
}

TEST_CASE("values can be sent as bfloat16") {
  auto of = server_options(1, std::nullopt);
  of.wire_type = DataType::bfloat16;
  ServerFixture fixture(3, of, 2);
  auto const client = fixture.connect(1);
  push(*client, {0, 0}, Values{1, 1.001f, -3.14159f});
  Values pulled(3);
  client->pull(1, pulled);
  CHECK(pulled == Values{1, 1, -3.140625f});
  client->write(0, Values{1, 1.001f, 2});
  Values read(3);
  client->read(0, read, 0, false);
  CHECK(read == Values{1, 1.001f, 2});
}

TEST_CASE("parameters that are read ahead are taken by a pull for which they are new enough") {
  auto const staleness = GENERATE(std::optional<std::uint64_t>(0), std::optional<std::uint64_t>(1),
                                  std::optional<std::uint64_t>());
  ServerFixture fixture(4, server_options(2, staleness), 3);
  auto const client = fixture.connect(2);
  auto const apply_push = [&](std::uint64_t clock) {
    push(*client, {clock, 0}, Values(4, 1));
    client->flush();
  };
  auto const pull = [&](std::uint64_t clock) {
    Values pulled(4, -1);
    client->pull(clock, pulled);
    return pulled;
  };
  // A server answers a connection's requests in order, so that what is read ahead lacks the push after it.
  client->prefetch(1);
  apply_push(0);
  CHECK(pull(1) == Values(4, staleness == 0 ? 1 : 0));
  CHECK(pull(1) == Values(4, 1));
  client->prefetch(2);
  apply_push(1);
  CHECK(pull(staleness == 0 ? 2 : 3) == Values(4, staleness.has_value() ? 2 : 1));
  client->prefetch(3);
  client->write(0, Values(4, 7));
  CHECK(pull(2) == Values(4, 7));
}
