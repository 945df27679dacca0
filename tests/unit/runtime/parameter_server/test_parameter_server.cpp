// SPDX-License-Identifier: Apache-2.0
// Servers and clients: staleness, fixed order of additions, lost workers, deadlines and invalid messages.
#include <atomic>
#include <chrono>
#include <mutex>
#include <random>
#include <set>
#include <thread>

#include "catch.hpp"
#include "flood.hpp"
#include "has.hpp"
#include "reducer/chunk_tree.hpp"
#include "server_fixture.hpp"
#include "soon.hpp"
#include "transport/secure_channel.hpp"

using namespace muster;
using namespace muster::parameter_server;
using namespace std::chrono_literals;

namespace {

using Values = ServerFixture::Values;

ParameterServerOptions options(int servers, std::optional<std::uint64_t> staleness, bool deals = false,
                               std::uint64_t tasks = 0) {
  ParameterServerOptions of;
  of.servers = servers;
  of.staleness = staleness;
  of.deals_tasks = deals;
  of.tasks_per_clock = tasks;
  of.alignment = 1;
  of.deadline = 20s;
  return of;
}

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

template <typename Call>
std::optional<Error> error_of(Call call) {
  try {
    call();
  } catch (const Error& error) {
    return error;
  }
  return std::nullopt;
}

}  // namespace

// Each worker adds 1 to an element of its own, so that a read shows whose updates it saw.
TEST_CASE("a read keeps the staleness, and workers see their own updates") {
  constexpr std::uint64_t clocks = 12;
  auto const staleness = GENERATE(std::optional<std::uint64_t>(0), std::optional<std::uint64_t>(2),
                                  std::optional<std::uint64_t>());
  constexpr int servers = 2, workers = 3;
  constexpr std::size_t width = 4;  // elements of each worker, on both servers
  ServerFixture fixture(width * workers, options(servers, staleness), servers + workers);
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
      client.push_part({clock, worker}, 0, gradient);
      client.end_push({clock, worker}, {}, {});
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
  ServerFixture fixture(size, options(servers, 0, true, tasks), servers + workers);
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
  auto of = options(1, std::nullopt);
  of.wire_type = DataType::bfloat16;
  ServerFixture fixture(3, of, 2);
  auto const client = fixture.connect(1);
  client->push_part({0, 0}, 0, Values{1, 1.001f, -3.14159f});
  client->end_push({0, 0}, {}, {});
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
  ServerFixture fixture(4, options(2, staleness), 3);
  auto const client = fixture.connect(2);
  auto const push = [&](std::uint64_t clock) {
    client->push_part({clock, 0}, 0, Values(4, 1));
    client->end_push({clock, 0}, {}, {});
    client->flush();
  };
  auto const pull = [&](std::uint64_t clock) {
    Values pulled(4, -1);
    client->pull(clock, pulled);
    return pulled;
  };
  // A server answers a connection's requests in order, so that what is read ahead lacks the push after it.
  client->prefetch(1);
  push(0);
  CHECK(pull(1) == Values(4, staleness == 0 ? 1 : 0));
  CHECK(pull(1) == Values(4, 1));
  client->prefetch(2);
  push(1);
  CHECK(pull(staleness == 0 ? 2 : 3) == Values(4, staleness.has_value() ? 2 : 1));
  client->prefetch(3);
  client->write(0, Values(4, 7));
  CHECK(pull(2) == Values(4, 7));
}

TEST_CASE("a lost worker's task goes to another one") {
  auto const staleness = GENERATE(std::optional<std::uint64_t>(0), std::optional<std::uint64_t>());
  ServerFixture fixture(4, options(2, staleness, true, 2), 4);
  auto lost = fixture.connect(3);
  auto const left = fixture.connect(2);
  auto const kept = lost->take(0);
  REQUIRE(kept == ParameterTask{0, 0});
  auto const own = left->take(0);
  REQUIRE(own == ParameterTask{0, 1});
  CHECK_FALSE(left->take(0));
  left->push_part(*own, 0, Values(4, 1));
  left->end_push(*own, {}, {});
  left->flush();
  lost.reset();
  CHECK_FALSE(left->wait_for(0));
  auto const again = left->take(0);
  REQUIRE(again == kept);
  left->push_part(*again, 0, Values(4, 10));
  left->end_push(*again, {}, {});
  CHECK(left->wait_for(0).has_value());
  CHECK(fixture.parameters() == Values(4, 11));
}

TEST_CASE("with fixed tasks a lost worker's gradients are left out") {
  auto const staleness = GENERATE(std::optional<std::uint64_t>(0), std::optional<std::uint64_t>(1));
  ServerFixture fixture(4, options(2, staleness), 4);
  auto lost = fixture.connect(3);
  auto const left = fixture.connect(2);
  for (std::uint64_t clock = 0; clock < 4; ++clock) {
    left->push_part({clock, 0}, 0, Values(4, 1));
    left->end_push({clock, 0}, {}, {});
    if (clock == 0) {
      lost->push_part({clock, 1}, 0, Values(4, 10));
      lost->end_push({clock, 1}, {}, {});
      lost.reset();  // after what it pushed was applied
    }
    Values pulled(4);
    left->pull(clock + 1, pulled);
    CHECK(pulled.front() >= 1);
  }
  CHECK(fixture.parameters() == Values(4, 14));
}

TEST_CASE("a wait that is too long names the worker or the server that is missing") {
  auto of = options(1, 0);
  of.deadline = 2s;  // on a busy machine, answers take up to a second
  std::atomic<bool> hold{true};
  ServerFixture fixture(4, of, 3, [&](std::span<float>, const ParameterUpdate&) {
    while (hold) std::this_thread::sleep_for(1ms);
  });
  auto const client = fixture.connect(1);
  client->push_part({0, 0}, 0, Values(4, 1));
  client->end_push({0, 0}, {}, {});
  auto const missing = error_of([&] { client->wait_for(0); });
  REQUIRE(missing);
  CHECK(missing->code() == ErrorCode::deadline);
  CHECK(has(missing->what(), "clock 0 is not complete after 2 s: no gradient from rank 2 (host h2)"));
  auto const other = fixture.connect(2);
  other->push_part({0, 1}, 0, Values(4, 1));
  other->end_push({0, 1}, {}, {});
  auto const silent = error_of([&] { other->wait_for(0); });
  REQUIRE(silent);
  CHECK(silent->code() == ErrorCode::deadline);
  CHECK(has(silent->what(), "a push was not answered within 4 s by rank 0 (host h0)"));
  hold = false;
}

TEST_CASE("a client that has waited in vain for a server does not wait again when it is closed") {
  auto of = options(1, 0);
  of.deadline = 2s;
  std::atomic<bool> hold{true};
  ServerFixture fixture(4, of, 2, [&](std::span<float>, const ParameterUpdate&) {
    while (hold) std::this_thread::sleep_for(1ms);
  });
  auto client = fixture.connect(1);
  client->push_part({0, 0}, 0, Values(4, 1));
  client->end_push({0, 0}, {}, {});
  auto const begin = Deadline::Clock::now();
  auto const silent = error_of([&] { client->flush(); });
  REQUIRE(silent);
  CHECK(silent->code() == ErrorCode::deadline);
  auto const middle = Deadline::Clock::now();
  client.reset();
  CHECK(2 * (Deadline::Clock::now() - middle) < middle - begin);
  hold = false;
}

TEST_CASE("a client reports a lost server, and first the job's own failure") {
  ServerFixture fixture(4, options(1, 0), 2);
  std::atomic<bool> failed{false};
  auto const client = fixture.connect(1, [&] {
    if (failed) throw Error(ErrorCode::lost_rank, "rank 0 was killed");
  });
  fixture.servers.clear();
  failed = true;
  auto const error = error_of([&] { client->take(0); });
  REQUIRE(error);
  CHECK(error->what() == std::string("rank 0 was killed"));
  failed = false;
  auto const lost = error_of([&] { client->take(0); });
  REQUIRE(lost);
  CHECK(lost->code() == ErrorCode::lost_rank);
  CHECK(has(lost->what(), "the connection to rank 0 (host h0) ended"));
}

TEST_CASE("what the update function throws fails the clients' calls") {
  ServerFixture fixture(4, options(1, std::nullopt), 2, [](std::span<float>, const ParameterUpdate& update) {
    if (update.arguments[0] > 1) throw Error(ErrorCode::system, "the update diverged");
  });
  auto const client = fixture.connect(1);
  client->push_part({0, 0}, 0, Values(4));
  client->end_push({0, 0}, std::vector{1.0}, {});
  client->flush();
  client->push_part({1, 0}, 0, Values(4));
  client->end_push({1, 0}, std::vector{2.0}, {});
  auto const error = error_of([&] { client->flush(); });
  REQUIRE(error);
  CHECK(has(error->what(), "the update diverged"));
  CHECK(has(error_of([&] { fixture.servers[0]->check(); })->what(), "the update diverged"));
  CHECK(has(error_of([&] { client->add_sums({}); })->what(), "the update diverged"));
}

// A lost worker's gradient is left out, which makes the update of a clock.
TEST_CASE("an update function that throws when a worker is lost fails the other ranks' calls") {
  bool const by_push = GENERATE(true, false);
  ServerFixture fixture(4, options(1, 0), 3, [by_push](std::span<float>, const ParameterUpdate&) {
    if (by_push) throw Error(ErrorCode::system, "the update diverged");
    throw 5;
  });
  auto const* const text = by_push ? "the update diverged" : "an exception that is no std::exception";
  auto const left = fixture.connect(1), reader = fixture.connect(0);
  auto lost = fixture.connect(2);
  left->push_part({0, 0}, 0, Values(4));
  left->end_push({0, 0}, {}, {});
  left->flush();
  std::optional<Error> waiting, reading;
  std::thread waits([&] { waiting = error_of([&] { left->wait_for(0); }); });
  std::thread reads([&] {
    Values values(4);
    reading = error_of([&] { reader->read(0, values, 1, false); });
  });
  if (by_push) {
    lost->push_part({0, 1}, 0, Values(4));
    lost->end_push({0, 1}, {}, {});
  }
  lost.reset();
  waits.join();
  reads.join();
  REQUIRE((waiting && reading));
  CHECK(has(waiting->what(), text));
  CHECK(has(reading->what(), text));
  CHECK(has(error_of([&] { fixture.servers[0]->check(); })->what(), text));
}

TEST_CASE("a push has a limited number of arguments and sums") {
  ServerFixture fixture(4, options(1, std::nullopt), 2);
  auto const client = fixture.connect(1);
  std::vector<double> const most(max_numbers), too_many(max_numbers + 1);
  CHECK(has(error_of([&] { client->end_push({0, 0}, too_many, {}); })->what(), "1025 arguments"));
  CHECK(has(error_of([&] { client->end_push({0, 0}, {}, too_many); })->what(), "1025 sums"));
  CHECK(has(error_of([&] { client->add_sums(too_many); })->what(), "1025 sums"));
  client->push_part({0, 0}, 0, Values(4));
  client->end_push({0, 0}, most, most);
  CHECK(client->wait_for(0) == most);
}

TEST_CASE("while strangers flood a server's listener, workers connect and push") {
  ServerFixture fixture(4, options(1, 0), 3);
  auto const endpoint = fixture.addresses()[0].endpoints.front();
  Flood flood(endpoint.data(), endpoint.size(), "mustkey");
  while (flood.connections() < Flood::kept) std::this_thread::sleep_for(1ms);
  auto const errors = fixture.run_workers([&](Client& client, std::uint64_t worker) {
    client.push_part({0, worker}, 0, Values(4, 1));
    client.end_push({0, worker}, {}, {});
  });
  CHECK(errors.empty());
  CHECK(fixture.parameters() == Values(4, 2));
}

TEST_CASE("an invalid message ends its connection and nothing else") {
  auto const push = [](std::uint64_t clock, std::uint64_t index, std::uint64_t offset, std::size_t bytes) {
    PushPart part{1, clock, index, offset};
    part.payload.resize(bytes);
    return encode(part);
  };
  std::vector<double> const too_many(max_numbers + 1);
  Message no_id = encode(Take{1, 0});
  no_id.erase("id");
  Message negative = encode(Read{1, 0, 0, 0, 4});
  negative["offset"] = -1;
  std::vector<std::vector<Message>> const wrong{{Message{{"type", "nothing"}, {"id", 1}}},
                                                {Message{{"id", 1}}},
                                                {no_id},
                                                {negative},
                                                {encode(Read{1, 1, 0, 0, 4})},
                                                {encode(Read{1, 0, 0, 3, 2})},
                                                {encode(Read{1, 0, 0, ~0ull, 2})},
                                                {encode(Write{1, 0, 2, Blob(12)})},
                                                {encode(Write{1, 0, 0, Blob(3)})},
                                                {push(0, 0, 0, 20)},
                                                {push(0, 0, ~0ull, 8)},
                                                {push(0, 0, 0, 3)},
                                                {push(0, 0, 0, 8), encode(PushEnd{1, 0, 0})},
                                                {push(0, 7, 0, 16), encode(PushEnd{1, 0, 7})},
                                                {push(5, 0, 0, 16), encode(PushEnd{1, 5, 0})},
                                                {push(0, 0, 0, 16), encode(PushEnd{1, 0, 0, too_many})},
                                                {encode(AddSums{1, too_many})},
                                                {encode(TaskDone{1, 0, 0, too_many})},
                                                {encode(TaskDone{1, 0, 7})},
                                                {encode(TaskDone{1, 0, 1})},
                                                {encode(Take{1, 0})}};
  ServerFixture fixture(4, options(1, 0), 3);
  auto const key = control::purpose_key(fixture.servers[0]->key(), control::purpose::parameter_server, 0);
  for (std::size_t i = 0; i < wrong.size(); ++i) {
    INFO(i);
    asio::io_context io;
    auto [socket, keys] = control::connect_once(io, 1, fixture.addresses()[0].endpoints, key, Deadline(10s));
    auto const channel = std::make_shared<control::SecureChannel>(std::move(socket), keys);
    bool ended = false;
    io.restart();
    channel->start([](const Message&) {}, [&](const std::string&) { ended = true; });
    for (const auto& message : wrong[i]) channel->send(message);
    for (int round = 0; round < 1000 && !ended; ++round) io.run_one_for(10ms);
    CHECK(ended);
  }
  CHECK_NOTHROW(fixture.servers[0]->check());
  CHECK(fixture.parameters() == Values(4));
}
