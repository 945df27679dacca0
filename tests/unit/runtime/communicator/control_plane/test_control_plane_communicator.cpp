// SPDX-License-Identifier: Apache-2.0
// A communicator over the control plane, for jobs that go on after losing ranks.
#include <thread>
#include <tuple>

#include "catch.hpp"
#include "communicator/control_plane/control_plane_communicator.hpp"
#include "has.hpp"
#include "muster/state.hpp"
#include "runtime/communicator/contexts.hpp"
#include "runtime/control_plane/thrown_errors.hpp"
#include "runtime/scenarios/errors.hpp"

using namespace muster;
using namespace muster::control;
using namespace std::chrono_literals;

namespace {

template <typename T>
std::vector<T> numbers(std::size_t count, int first) {
  std::vector<T> values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = static_cast<T>((static_cast<int>(i) + first) % 7 + 1);
  return values;
}

// Every rank has a host of its own, or all have one host. There rank 0 has a core of its own, and the others
// share one.
enum class Hosts { several, one };

std::shared_ptr<detail::JobContext> make_job_context(const ControlPlaneFixture& fixture, int rank,
                                                     Hosts hosts, std::chrono::milliseconds timeout = 60s) {
  auto context = make_connected_context(fixture, rank, timeout);
  if (hosts == Hosts::several) return context;
  for (auto& hello : context->roster) {
    hello.host = "h0";
    hello.cpus = hello.rank == 0 ? "0" : "1";
  }
  return context;
}

Communicator make_communicator(const ControlPlaneFixture& fixture, int rank, Hosts hosts = Hosts::several) {
  return Communicator(std::make_shared<detail::ControlPlaneCommunicator>(
      detail::CommunicatorGroup(make_job_context(fixture, rank, hosts), "host")));
}

// Runs `call` with a communicator over the control plane on each of the ranks.
void run_on_communicators(ControlPlaneFixture& fixture, Hosts hosts,
                          const std::function<void(Communicator& world)>& call) {
  auto const thrown = fixture.run_on_all([&](int rank, ControlPlane&) {
    auto world = make_communicator(fixture, rank, hosts);
    call(world);
  });
  check_no_errors(thrown);
}

void require(bool holds, const char* what) {
  if (!holds) throw Error(ErrorCode::system, what);
}

}  // namespace

TEST_CASE("when a rank interrupts its own wait without MPI, the job goes on") {
  auto const hosts = GENERATE(Hosts::several, Hosts::one);
  ControlPlaneFixture fixture(2);
  auto const thrown = fixture.run_on_all([&](int rank, ControlPlane& plane) {
    detail::ControlPlaneCommunicator world(
        detail::CommunicatorGroup(make_job_context(fixture, rank, hosts, 600s), "host"));
    std::int8_t nothing = 0;
    world.run({detail::OperationKind::all_reduce, &nothing, &nothing, 1, DataType::int8}, nullptr);
    if (rank == 0) {
      std::thread second([&] {
        std::this_thread::sleep_for(100ms);
        world.interrupt();
      });
      std::vector<float> values(10);
      auto const error = catch_error([&] {
        world.run({detail::OperationKind::all_reduce, values.data(), values.data(), 10}, nullptr);
      });
      second.join();
      CHECK(error.code() == ErrorCode::usage);
      CHECK(has(error.what(), "was interrupted by its own rank"));
    }
    plane.barrier("after", 10s);
  });
  CHECK_FALSE((thrown[0] || thrown[1]));
}

TEST_CASE("collectives without MPI give the right results, over the control plane and in shared memory") {
  auto const hosts = GENERATE(Hosts::several, Hosts::one);
  ControlPlaneFixture fixture(3);
  run_on_communicators(fixture, hosts, [](Communicator& world) {
    int const rank = world.rank();
    // More than one piece.
    std::vector<double> sum(200'000, rank + 1.0);
    world.all_reduce(std::span(sum));
    require(sum == std::vector<double>(200'000, 6.0), "all_reduce");
    std::vector<std::int8_t> mean{static_cast<std::int8_t>(rank == 0 ? -7 : 0), 100};
    world.all_reduce(std::span(mean), Reduction::average);
    require(mean[0] == -2, "average rounds towards zero");
    std::vector<bfloat16> halves{bfloat16(static_cast<float>(rank) + 0.5f)};
    world.all_reduce(std::span(halves), Reduction::max);
    require(static_cast<float>(halves[0]) == 2.5f, "bfloat16 max");
    auto values = numbers<int>(5, rank);
    world.broadcast(std::span(values), 2);
    require(values == numbers<int>(5, 2), "broadcast");
    std::vector<int> all(15);
    world.all_gather(std::span<const int>(numbers<int>(5, rank)), std::span(all));
    for (int r = 0; r < 3; ++r)
      require(std::equal(all.begin() + 5 * r, all.begin() + 5 * r + 5, numbers<int>(5, r).begin()),
              "all_gather");
    std::vector<float> slice(2);
    world.reduce_scatter(std::span<const float>(std::vector<float>{0, 1, 2, 3, 4, 5}), std::span(slice));
    require(slice == std::vector<float>{6.0f * static_cast<float>(rank), 6.0f * static_cast<float>(rank) + 3},
            "reduce_scatter");
    std::vector<int> sums(300'000, rank + 1);  // in place, and more than one piece
    std::span const own_share(&sums[100'000 * static_cast<std::size_t>(rank)], 100'000);
    world.reduce_scatter(sums, own_share);
    require(std::equal(own_share.begin(), own_share.end(), std::vector<int>(100'000, 6).begin()),
            "reduce_scatter in place");
    std::vector<int> reduced(400'000, rank + 1);  // more than one piece
    world.reduce(std::span(reduced), 1);
    require(reduced == std::vector<int>(400'000, rank == 1 ? 6 : rank + 1), "reduce");
    std::vector<std::size_t> const counts{1, 0, 5};
    std::vector<int> share(counts[static_cast<std::size_t>(rank)], rank);
    std::vector<int> shares(6);
    world.all_gather_v(share, shares, counts);
    require(shares == std::vector<int>{0, 2, 2, 2, 2, 2}, "all_gather_v");
    world.reduce_scatter_v(shares, share, counts);
    require(share == std::vector<int>(share.size(), rank == 0 ? 0 : 6), "reduce_scatter_v");
    // Between the sizes up to which a rank with a core of its own, and one without, reduces all data.
    std::vector<float> short_sum(4'000, static_cast<float>(rank));
    world.all_reduce(std::span(short_sum));
    require(short_sum == std::vector<float>(4'000, 3.0f), "short all_reduce");
    std::vector<int> token{rank};
    if (rank == 0) world.send(std::span<const int>(token), 2);
    if (rank == 2) world.recv(std::span(token), 0);
    require(token[0] == (rank == 2 ? 0 : rank), "send");
    auto part = world.split(rank == 1 ? 1 : 0);
    std::vector<int> one{1};
    part.all_reduce(std::span(one));
    require(one[0] == (rank == 1 ? 1 : 2), "split");
    world.barrier();
  });
}

TEST_CASE("ranks whose counts of an all_to_all_v differ get an error with both") {
  ControlPlaneFixture fixture(2);
  auto const thrown = fixture.run_on_all([&](int rank, ControlPlane&) {
    auto world = make_communicator(fixture, rank);
    std::vector<float> const in(4);
    std::vector<float> out(rank == 0 ? 4 : 5);
    using Counts = std::vector<std::size_t>;
    // Rank 0 sends 1 element to rank 1, which expects 2.
    if (rank == 0) return world.all_to_all_v(in, out, Counts{3, 1}, Counts{3, 1});
    world.all_to_all_v(in, out, Counts{1, 3}, Counts{2, 3});
  });
  REQUIRE((thrown[0] && thrown[1]));
  CHECK(thrown[1]->code() == ErrorCode::usage);
  CHECK(has(thrown[1]->what(), "all_to_all_v on communicator 'host', rank 1"));
  CHECK(has(thrown[1]->what(),
            "rank 0 (host h0, GPU 0000:00:00.0) sends 1 elements to this rank, whose "
            "recv_counts has 2"));
}

TEST_CASE("when a rank leaves too early, the error names the operation in which another rank waits") {
  bool const splits = GENERATE(true, false);
  ControlPlaneFixture fixture(3);
  auto const thrown = fixture.run_on_all([&](int rank, ControlPlane& plane) {
    if (rank == 0) plane.final_barrier("leave", 20s);
    auto world = make_communicator(fixture, rank);
    std::vector<float> values(10);
    if (splits) world.split(0);
    world.all_reduce(std::span(values));
  });
  REQUIRE(thrown[0]);
  INFO(thrown[0]->what());
  CHECK(has(thrown[0]->what(), "rank 0 (host h0, GPU 0000:00:00.0) left the job while "));
  CHECK(has(thrown[0]->what(),
            splits ? " for it in split 1 of communicator 'host'" : " for it in operation 1 on "));
}

TEST_CASE("reductions go on without a rank whose loss the job survives") {
  ControlPlaneFixture fixture(3);
  check_no_errors(fixture.run_on_all([](int, ControlPlane& plane) { plane.survive_loss_of({2}, 20s); }));
  auto const thrown = fixture.run_on_all([&](int rank, ControlPlane& plane) {
    if (rank == 2) return plane.abort_connections();
    auto world = make_communicator(fixture, rank);
    std::vector<float> const in{1, 2, 3};
    std::vector<float> all = in, slice(1), share(rank == 0 ? 2 : 1);
    world.all_reduce(std::span(all));
    require(all == std::vector<float>{2, 4, 6}, "all_reduce");
    world.reduce_scatter(in, slice);
    require(slice == std::vector<float>{rank == 0 ? 2.0f : 4.0f}, "reduce_scatter");
    world.reduce_scatter_v(in, share, std::vector<std::size_t>{2, 1, 0});
    require(share == (rank == 0 ? std::vector<float>{2, 4} : std::vector<float>{6}), "reduce_scatter_v");
  });
  check_no_errors(thrown);
}

TEST_CASE("after leave() a communicator without MPI and the job's store refuse every call at once") {
  auto const hosts = GENERATE(Hosts::several, Hosts::one);
  ControlPlaneFixture fixture(2);
  auto const thrown = fixture.run_on_all([&](int rank, ControlPlane& plane) {
    auto world = make_communicator(fixture, rank, hosts);
    std::vector<float> values(10);
    world.all_reduce(std::span(values));
    plane.final_barrier("leave", 60s);
    plane.leave();
    auto const refused = [](const auto& call) { return catch_error(call).code() == ErrorCode::usage; };
    require(refused([&] { world.all_reduce(std::span(values)); }), "all_reduce");
    require(refused([&] { world.split(0); }), "split");
    require(refused([&] { broadcast_state(world, State().add(rank)); }), "host_all_gather");
    require(refused([&] { plane.barrier("again", 60s); }), "barrier");
    require(refused([&] { plane.put("key", {}); }), "put");
    require(refused([&] { plane.get("key", 60s); }), "get");
  });
  check_no_errors(thrown);
}

TEST_CASE("when ranks call different collectives without MPI, the error names them at once") {
  auto const hosts = GENERATE(Hosts::several, Hosts::one);
  ControlPlaneFixture fixture(2);
  auto const thrown = fixture.run_on_all([&](int rank, ControlPlane&) {
    auto world = make_communicator(fixture, rank, hosts);
    std::vector<float> values(10);
    if (rank == 0) return world.all_reduce(std::span(values));
    world.barrier();
  });
  REQUIRE((thrown[0] && thrown[1]));
  CHECK(thrown[0]->code() == ErrorCode::usage);
  CHECK(has(thrown[0]->what(), "rank 1 (host h1, GPU 0000:01:00.0) called barrier"));
  CHECK(has(thrown[0]->what(), "rank 0 (host h0, GPU 0000:00:00.0) called all_reduce of 10 float32, sum"));
  CHECK(thrown[0]->reported_elsewhere() != thrown[1]->reported_elsewhere());
}

// Each passes a moved-from buffer once. None adds another step's numbers to its own.
TEST_CASE("without MPI, ranks whose calls have no elements are found at once") {
  auto const hosts = GENERATE(Hosts::several, Hosts::one);
  ControlPlaneFixture fixture(2);
  auto const thrown = fixture.run_on_all([&](int rank, ControlPlane&) {
    auto world = make_communicator(fixture, rank, hosts);
    for (int step = 0; step < 20; ++step) {  // rank 0 compares the first four itself
      std::vector<float> values(step == 10 + rank ? 0 : 10, 1.0f * static_cast<float>(step));
      world.all_reduce(values);
      for (float const value : values) require(value == 2.0f * static_cast<float>(step), "step");
    }
  });
  REQUIRE((thrown[0] && thrown[1]));
  for (const auto& error : thrown) {
    INFO(error->what());
    CHECK(error->code() == ErrorCode::usage);
    CHECK(has(error->what(), "called all_reduce of 0 float32, sum"));
    CHECK(has(error->what(), "called all_reduce of 10 float32, sum"));
  }
}

TEST_CASE("a recv without MPI takes only a send of its own type and length") {
  struct Message {
    DataType type;
    std::size_t bytes;
  };
  constexpr std::size_t mebibyte = 1u << 20;
  // The bytes of the first piece are equal; of the last messages those of all pieces.
  auto const [sent, received, difference] =
      GENERATE(std::tuple(Message{DataType::float32, 400}, Message{DataType::int32, 400},
                          "a recv of 100 int32 met a send of 100 float32 on rank 0 "),
               std::tuple(Message{DataType::float32, 0}, Message{DataType::float32, 400},
                          "a recv of 100 float32 met a send of 0 float32 on rank 0 "),
               std::tuple(Message{DataType::float32, 400}, Message{DataType::float32, 0},
                          "a recv of 0 float32 met a send of 100 float32 on rank 0 "),
               std::tuple(Message{DataType::int8, 6 * mebibyte}, Message{DataType::int8, 2 * mebibyte},
                          "a recv of 2097152 int8 met a send of 6291456 int8 on rank 0 "),
               std::tuple(Message{DataType::int8, 2 * mebibyte}, Message{DataType::int8, 6 * mebibyte},
                          "a recv of 6291456 int8 met a send of 2097152 int8 on rank 0 "));
  INFO(difference);
  ControlPlaneFixture fixture(2);
  std::vector<std::uint8_t> const from(sent.bytes, 1);
  std::vector<std::uint8_t> to(received.bytes);
  auto const thrown = fixture.run_on_all([&](int rank, ControlPlane&) {
    detail::ControlPlaneCommunicator world(
        detail::CommunicatorGroup(make_job_context(fixture, rank, Hosts::several), "host"));
    if (rank == 0) {
      world.run({detail::OperationKind::send, from.data(), nullptr, sent.bytes / size_of(sent.type),
                 sent.type, Reduction::sum, 1},
                nullptr);
      return world.run({detail::OperationKind::barrier}, nullptr);
    }
    world.run({detail::OperationKind::recv, to.data(), to.data(), received.bytes / size_of(received.type),
               received.type, Reduction::sum, 0},
              nullptr);
  });
  REQUIRE((thrown[0] && thrown[1]));
  for (const auto& error : thrown) {
    CHECK(error->code() == ErrorCode::usage);
    CHECK(has(error->what(), "recv on communicator 'host', rank 1 (host h1, GPU 0000:01:00.0): "));
    CHECK(has(error->what(), difference));
  }
  CHECK(to == std::vector<std::uint8_t>(received.bytes));
}
