// SPDX-License-Identifier: Apache-2.0
// Lost workers and servers, deadlines, update functions that throw, invalid calls and messages, strangers.
#include <atomic>
#include <chrono>
#include <thread>

#include "catch.hpp"
#include "flood.hpp"
#include "runtime/scenarios/errors.hpp"
#include "server_fixture.hpp"
#include "transport/secure_channel.hpp"

using namespace muster;
using namespace muster::parameter_server;
using namespace std::chrono_literals;

using Values = ServerFixture::Values;

TEST_CASE("a lost worker's task goes to another one") {
  auto const staleness = GENERATE(std::optional<std::uint64_t>(0), std::optional<std::uint64_t>());
  ServerFixture fixture(4, server_options(2, staleness, true, 2), 4);
  auto lost = fixture.connect(3);
  auto const left = fixture.connect(2);
  auto const kept = lost->take(0);
  REQUIRE(kept == ParameterTask{0, 0});
  auto const own = left->take(0);
  REQUIRE(own == ParameterTask{0, 1});
  CHECK_FALSE(left->take(0));
  push(*left, *own, Values(4, 1));
  left->flush();
  lost.reset();
  CHECK_FALSE(left->wait_for(0));
  auto const again = left->take(0);
  REQUIRE(again == kept);
  push(*left, *again, Values(4, 10));
  CHECK(left->wait_for(0).has_value());
  CHECK(fixture.parameters() == Values(4, 11));
}

TEST_CASE("with fixed tasks a lost worker's gradients are left out") {
  auto const staleness = GENERATE(std::optional<std::uint64_t>(0), std::optional<std::uint64_t>(1));
  ServerFixture fixture(4, server_options(2, staleness), 4);
  auto lost = fixture.connect(3);
  auto const left = fixture.connect(2);
  for (std::uint64_t clock = 0; clock < 4; ++clock) {
    push(*left, {clock, 0}, Values(4, 1));
    if (clock == 0) {
      push(*lost, {clock, 1}, Values(4, 10));
      lost.reset();  // after what it pushed was applied
    }
    Values pulled(4);
    left->pull(clock + 1, pulled);
    CHECK(pulled.front() >= 1);
  }
  CHECK(fixture.parameters() == Values(4, 14));
}

TEST_CASE("a wait that is too long names the worker or the server that is missing") {
  auto of = server_options(1, 0);
  of.deadline = 2s;  // on a busy machine, answers take up to a second
  std::atomic<bool> hold{true};
  ServerFixture fixture(4, of, 3, [&](std::span<float>, const ParameterUpdate&) {
    while (hold) std::this_thread::sleep_for(1ms);
  });
  auto const client = fixture.connect(1);
  push(*client, {0, 0}, Values(4, 1));
  auto const missing = catch_error([&] { client->wait_for(0); });
  CHECK(missing.code() == ErrorCode::deadline);
  CHECK(has(missing.what(), "clock 0 is not complete after 2 s: no gradient from rank 2 (host h2)"));
  auto const other = fixture.connect(2);
  push(*other, {0, 1}, Values(4, 1));
  auto const silent = catch_error([&] { other->wait_for(0); });
  CHECK(silent.code() == ErrorCode::deadline);
  CHECK(has(silent.what(), "a push was not answered within 4 s by rank 0 (host h0)"));
  hold = false;
}

TEST_CASE("a client that has waited in vain for a server does not wait again when it is closed") {
  auto of = server_options(1, 0);
  of.deadline = 2s;
  std::atomic<bool> hold{true};
  ServerFixture fixture(4, of, 2, [&](std::span<float>, const ParameterUpdate&) {
    while (hold) std::this_thread::sleep_for(1ms);
  });
  auto client = fixture.connect(1);
  push(*client, {0, 0}, Values(4, 1));
  auto const begin = Deadline::Clock::now();
  auto const silent = catch_error([&] { client->flush(); });
  CHECK(silent.code() == ErrorCode::deadline);
  auto const middle = Deadline::Clock::now();
  client.reset();
  CHECK(2 * (Deadline::Clock::now() - middle) < middle - begin);
  hold = false;
}

TEST_CASE("a client reports a lost server, and first the job's own failure") {
  ServerFixture fixture(4, server_options(1, 0), 2);
  std::atomic<bool> failed{false};
  auto const client = fixture.connect(1, [&] {
    if (failed) throw Error(ErrorCode::lost_rank, "rank 0 was killed");
  });
  fixture.servers.clear();
  failed = true;
  auto const error = catch_error([&] { client->take(0); });
  CHECK(error.what() == std::string("rank 0 was killed"));
  failed = false;
  auto const lost = catch_error([&] { client->take(0); });
  CHECK(lost.code() == ErrorCode::lost_rank);
  CHECK(has(lost.what(), "the connection to rank 0 (host h0) ended"));
}

TEST_CASE("what the update function throws fails the clients' calls") {
  ServerFixture fixture(4, server_options(1, std::nullopt), 2,
                        [](std::span<float>, const ParameterUpdate& update) {
                          if (update.arguments[0] > 1) throw Error(ErrorCode::system, "the update diverged");
                        });
  auto const client = fixture.connect(1);
  push(*client, {0, 0}, Values(4), std::vector{1.0});
  client->flush();
  push(*client, {1, 0}, Values(4), std::vector{2.0});
  auto const error = catch_error([&] { client->flush(); });
  CHECK(has(error.what(), "the update diverged"));
  CHECK(has(catch_error([&] { fixture.servers[0]->check(); }).what(), "the update diverged"));
  CHECK(has(catch_error([&] { client->add_sums({}); }).what(), "the update diverged"));
}

// A lost worker's gradient is left out, which makes the update of a clock.
TEST_CASE("an update function that throws when a worker is lost fails the other ranks' calls") {
  bool const by_push = GENERATE(true, false);
  ServerFixture fixture(4, server_options(1, 0), 3, [by_push](std::span<float>, const ParameterUpdate&) {
    if (by_push) throw Error(ErrorCode::system, "the update diverged");
    throw 5;
  });
  auto const* const text = by_push ? "the update diverged" : "an exception that is no std::exception";
  auto const left = fixture.connect(1), reader = fixture.connect(0);
  auto lost = fixture.connect(2);
  push(*left, {0, 0}, Values(4));
  left->flush();
  std::string waiting, reading;
  std::thread waits([&] { waiting = catch_error([&] { left->wait_for(0); }).what(); });
  std::thread reads([&] {
    Values values(4);
    reading = catch_error([&] { reader->read(0, values, 1, false); }).what();
  });
  if (by_push) push(*lost, {0, 1}, Values(4));
  lost.reset();
  waits.join();
  reads.join();
  CHECK(has(waiting, text));
  CHECK(has(reading, text));
  CHECK(has(catch_error([&] { fixture.servers[0]->check(); }).what(), text));
}

TEST_CASE("a push has a limited number of arguments and sums") {
  ServerFixture fixture(4, server_options(1, std::nullopt), 2);
  auto const client = fixture.connect(1);
  std::vector<double> const most(max_numbers), too_many(max_numbers + 1);
  CHECK(has(catch_error([&] { client->end_push({0, 0}, too_many, {}); }).what(), "1025 arguments"));
  CHECK(has(catch_error([&] { client->end_push({0, 0}, {}, too_many); }).what(), "1025 sums"));
  CHECK(has(catch_error([&] { client->add_sums(too_many); }).what(), "1025 sums"));
  client->push_part({0, 0}, 0, Values(4));
  client->end_push({0, 0}, most, most);
  CHECK(client->wait_for(0) == most);
}

TEST_CASE("while strangers flood a server's listener, workers connect and push") {
  ServerFixture fixture(4, server_options(1, 0), 3);
  auto const endpoint = fixture.addresses()[0].endpoints.front();
  Flood flood(endpoint.data(), endpoint.size(), "mustkey");
  while (flood.connections() < Flood::kept) std::this_thread::sleep_for(1ms);
  auto const errors = fixture.run_workers([&](Client& client, std::uint64_t worker) {
    push(client, {0, worker}, Values(4, 1));
  });
  CHECK(errors.empty());
  CHECK(fixture.parameters() == Values(4, 2));
}

TEST_CASE("an invalid message ends its connection and nothing else") {
  auto const part = [](std::uint64_t clock, std::uint64_t index, std::uint64_t offset, std::size_t bytes) {
    PushPart one{1, clock, index, offset};
    one.payload.resize(bytes);
    return encode(one);
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
                                                {part(0, 0, 0, 20)},
                                                {part(0, 0, ~0ull, 8)},
                                                {part(0, 0, 0, 3)},
                                                {part(0, 0, 0, 8), encode(PushEnd{1, 0, 0})},
                                                {part(0, 7, 0, 16), encode(PushEnd{1, 0, 7})},
                                                {part(5, 0, 0, 16), encode(PushEnd{1, 5, 0})},
                                                {part(0, 0, 0, 16), encode(PushEnd{1, 0, 0, too_many})},
                                                {encode(AddSums{1, too_many})},
                                                {encode(TaskDone{1, 0, 0, too_many})},
                                                {encode(TaskDone{1, 0, 7})},
                                                {encode(TaskDone{1, 0, 1})},
                                                {encode(Take{1, 0})}};
  ServerFixture fixture(4, server_options(1, 0), 3);
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
