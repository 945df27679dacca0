// SPDX-License-Identifier: Apache-2.0
// Ranks that meet without PMIx, as threads of one process.
#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <map>
#include <thread>

#include "bootstrap/key_desk.hpp"
#include "bootstrap/meeting.hpp"
#include "catch.hpp"
#include "has.hpp"
#include "control/connect.hpp"
#include "control/gate.hpp"

using namespace muster;
using namespace muster::bootstrap;
using namespace std::chrono_literals;

namespace {

Record record_of(int rank) {
  Record record;
  record.hello.rank = rank;
  record.hello.host = fmt::format("h{}", rank / 2);
  record.hello.pid = 100 + rank;
  return record;
}

// Another name for each meeting of this test program.
std::string new_job() {
  static int count = 0;
  return fmt::format("test/{}/{}", getpid(), ++count);
}

// All on one UNIX socket, where the kernel authenticates.
MeetingPlan plan_of(const std::string& job, int rank, int size) {
  MeetingPlan plan;
  plan.name = "test";
  plan.job = job;
  plan.rank = rank;
  plan.size = size;
  plan.leader_host = "h0";
  plan.local_name = "muster/" + job;
  plan.seal = kernel_seal();
  for (int r = 0; r < size; ++r) plan.host_of.push_back(record_of(r).hello.host);
  return plan;
}

struct Outcome {
  std::vector<Record> records;
  std::optional<Error> error;
};

// Each rank's part at once, but the last one's, which may begin later.
std::vector<Outcome> meet(const std::vector<MeetingPlan>& plans, std::chrono::milliseconds deadline,
                          std::chrono::milliseconds last_later = 0ms) {
  std::vector<Outcome> outcomes(plans.size());
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < plans.size(); ++i) {
    threads.emplace_back([&, i] {
      if (i + 1 == plans.size()) std::this_thread::sleep_for(last_later);
      try {
        auto const membership = meeting(plans[i]);
        outcomes[i].records = membership->exchange(record_of(plans[i].rank), Deadline(deadline));
      } catch (const Error& error) {
        outcomes[i].error = error;
      }
    });
  }
  for (auto& thread : threads) thread.join();
  return outcomes;
}

int speakers(const std::vector<Outcome>& outcomes) {
  int count = 0;
  for (const auto& outcome : outcomes)
    if (outcome.error && !outcome.error->repeated()) ++count;
  return count;
}

void check_complete(const std::vector<Outcome>& outcomes) {
  for (const auto& outcome : outcomes) {
    INFO((outcome.error ? outcome.error->what() : ""));
    REQUIRE_FALSE(outcome.error);
    REQUIRE(outcome.records.size() == outcomes.size());
    for (std::size_t r = 0; r < outcomes.size(); ++r)
      CHECK(outcome.records[r].hello.pid == 100 + static_cast<int>(r));
  }
}

}  // namespace

TEST_CASE("ranks meet and everybody gets every record") {
  auto const job = new_job();
  std::vector<MeetingPlan> plans;
  for (int r = 0; r < 9; ++r) plans.push_back(plan_of(job, r, 9));
  check_complete(meet(plans, 10s));
}

TEST_CASE("with a key that all know, ranks meet on the first port that is free") {
  asio::io_context io;
  control::Gate other(io);  // another program has the first port
  std::uint16_t const free_port = [&] { return control::Gate(io).port(); }();
  auto const key = control::random_key();
  std::vector<MeetingPlan> plans;
  for (int r = 0; r < 3; ++r) {
    auto plan = plan_of("test/ports", r, 3);
    plan.local_name.clear();
    plan.seal = nullptr;
    plan.key = key;
    plan.leader_host = "127.0.0.1";
    plan.ports = {other.port(), free_port};
    plans.push_back(plan);
  }
  check_complete(meet(plans, 10s));
}

TEST_CASE("a rank that does not come is named in one line") {
  auto const job = new_job();
  std::vector<MeetingPlan> plans;
  for (int r = 0; r < 3; ++r) plans.push_back(plan_of(job, r, 4));
  auto const outcomes = meet(plans, 2s);
  REQUIRE((outcomes[0].error && outcomes[1].error && outcomes[2].error));
  CHECK(speakers(outcomes) == 1);
  CHECK(outcomes[2].error->what() == std::string(outcomes[0].error->what()));
  CHECK(has(outcomes[0].error->what(), "join: 1 of 4 ranks missing after 2 s: rank 3 (host h1)"));
}

TEST_CASE("the ranks of a host come to rank 0 through one of them") {
  struct Counting : Seal {
    std::vector<std::uint8_t> close(std::span<const std::uint8_t> bytes) override {
      return {bytes.begin(), bytes.end()};
    }
    std::vector<std::uint8_t> open(std::span<const std::uint8_t> sealed) override {
      ++opened;
      return {sealed.begin(), sealed.end()};
    }
    std::atomic<int> opened{0};
  };
  auto const counting = std::make_shared<Counting>();
  auto const job = new_job();
  std::vector<MeetingPlan> plans;
  for (int r = 0; r < 12; ++r) {
    auto plan = plan_of(job, r, 12);
    plan.host_socket = fmt::format("muster/{}/host{}", job, r / 4);
    if (r == 0) plan.seal = counting;
    plans.push_back(plan);
  }
  check_complete(meet(plans, 20s));
  // One a host; rank 0's own host needs none where rank 0 was its first.
  CHECK((counting->opened == 2 || counting->opened == 3));
}

TEST_CASE("a rank that is missing behind a host's first is named, and a copy of one is refused") {
  auto job = new_job();
  auto const behind = [&](int rank, int size) {
    auto plan = plan_of(job, rank, size);
    plan.host_socket = fmt::format("muster/{}/host{}", job, rank == 0 ? 0 : 1);
    return plan;
  };
  auto outcomes = meet({behind(0, 5), behind(1, 5), behind(2, 5), behind(3, 5)}, 4s);
  REQUIRE((outcomes[0].error && outcomes[1].error && outcomes[2].error && outcomes[3].error));
  CHECK(speakers(outcomes) == 1);
  CHECK(has(outcomes[0].error->what(), "join: 1 of 5 ranks missing after 4 s: rank 4 (host h2)"));
  for (const auto& outcome : outcomes) CHECK(outcome.error->what() == std::string(outcomes[0].error->what()));
  job = new_job();
  // The copy ends the meeting: who is not there by then speaks for itself.
  outcomes = meet({behind(0, 4), behind(1, 4), behind(2, 4), behind(2, 4)}, 10s, 2s);
  CHECK(speakers(outcomes) == 1);
  REQUIRE(outcomes[0].error);
  CHECK(has(outcomes[0].error->what(), "two processes say that they are rank 2"));
}

TEST_CASE("when rank 0 does not come, one rank of its host says so, whichever came") {
  for (auto const& came : {std::vector<int>{1, 2, 3}, std::vector<int>{3, 2}}) {
    auto const job = new_job();
    std::vector<MeetingPlan> plans;
    for (int const rank : came) {
      plans.push_back(plan_of(job, rank, 4));
      plans.back().host_socket = "muster/host/" + job;
    }
    auto const outcomes = meet(plans, 400ms);
    for (const auto& outcome : outcomes) REQUIRE(outcome.error);
    CHECK(speakers(outcomes) == 1);
    for (const auto& outcome : outcomes) {
      if (!outcome.error->repeated()) CHECK(has(outcome.error->what(), "cannot meet rank 0 within 400 ms"));
    }
  }
}

TEST_CASE("a rank without MUNGE says so to rank 0, which tells it at the deadline as unproven") {
  auto const job = new_job();
  std::vector<MeetingPlan> plans;
  for (int r = 0; r < 3; ++r) plans.push_back(plan_of(job, r, 3));
  plans[2].obstacle = Obstacle::no_munged;
  plans[2].trouble = "join: no munged";
  auto const outcomes = meet(plans, 2s);
  REQUIRE((outcomes[0].error && outcomes[1].error && outcomes[2].error));
  CHECK(speakers(outcomes) == 1);
  CHECK_FALSE(outcomes[0].error->repeated());
  CHECK(has(outcomes[0].error->what(),
            "rank 2 (host h1) cannot take part, it says: no munged answers on its host"));
}

TEST_CASE("a word without proof counts for a rank that there is and an obstacle that is known") {
  asio::io_context io;
  auto const job = new_job();
  auto const seal = kernel_seal();
  std::map<int, Obstacle> declined;
  KeyDesk desk(std::make_unique<control::Door>(io, "muster/" + job), *seal, job, 3,
               Ticket{control::random_key(), 1}, nullptr,
               [&](int rank, Obstacle obstacle) { declined[rank] = obstacle; });
  std::thread server([&] { io.run_for(20s); });
  auto const at = control::local_endpoint("muster/" + job);
  asio::io_context mine;
  decline_at(mine, at, 1, Obstacle::no_library, Deadline(5s));
  decline_at(mine, at, 0, Obstacle::no_library, Deadline(5s));
  decline_at(mine, at, 3, Obstacle::no_library, Deadline(5s));
  decline_at(mine, at, -1, Obstacle::no_library, Deadline(5s));
  decline_at(mine, at, 2, static_cast<Obstacle>(77), Deadline(5s));
  asio::post(io, [&] {
    desk.close();
    io.stop();
  });
  server.join();
  CHECK(declined == std::map<int, Obstacle>{{1, Obstacle::no_library}});
}

TEST_CASE("the desk opens several credentials at once") {
  struct Slow : Seal {
    std::vector<std::uint8_t> close(std::span<const std::uint8_t> bytes) override {
      return {bytes.begin(), bytes.end()};
    }
    std::vector<std::uint8_t> open(std::span<const std::uint8_t> sealed) override {
      int const now = ++opening;
      for (int so_far = most; so_far < now && !most.compare_exchange_weak(so_far, now);) {
      }
      std::this_thread::sleep_for(200ms);
      --opening;
      return {sealed.begin(), sealed.end()};
    }
    std::atomic<int> opening{0};
    std::atomic<int> most{0};
  } slow;
  asio::io_context io;
  auto const job = new_job();
  KeyDesk desk(std::make_unique<control::Door>(io, "muster/" + job), slow, job, 9,
               Ticket{control::random_key(), 1}, nullptr);
  std::thread server([&] { io.run_for(20s); });
  std::vector<std::thread> ranks;
  std::atomic<int> given{0};
  for (int r = 1; r < 9; ++r) {
    ranks.emplace_back([&, r] {
      asio::io_context mine;
      auto const seal = kernel_seal();
      ask_for_ticket(mine, control::local_endpoint("muster/" + job), *seal, job, r, Deadline(20s));
      ++given;
    });
  }
  for (auto& rank : ranks) rank.join();
  asio::post(io, [&] {
    desk.close();
    io.stop();
  });
  server.join();
  CHECK(given == 8);
  CHECK(slow.most > 1);
}

TEST_CASE("two processes that are the same rank, and ranks that count differently, end the job") {
  auto job = new_job();
  auto const began = std::chrono::steady_clock::now();
  auto outcomes = meet({plan_of(job, 0, 3), plan_of(job, 1, 3), plan_of(job, 1, 3)}, 2s);
  CHECK(std::chrono::steady_clock::now() - began < 1s);
  CHECK(speakers(outcomes) == 1);
  // The two are threads of this process with equal records: pids are told.
  REQUIRE(outcomes[0].error);
  CHECK(outcomes[0].error->fault() == Fault::environment);
  CHECK(has(outcomes[0].error->what(), "two processes say that they are rank 1: pid 101 on host h0"));
  job = new_job();
  outcomes = meet({plan_of(job, 0, 3), plan_of(job, 1, 2), plan_of(job, 2, 3)}, 2s);
  REQUIRE(outcomes[0].error);
  CHECK(has(outcomes[0].error->what(),
            "rank 1 (host h0) was told that there are 2 ranks, but rank 0 that there are 3"));
}

TEST_CASE("the desk gives nothing to another job, another frame or a rank that is not there") {
  asio::io_context io;
  auto const job = new_job();
  auto const seal = kernel_seal();
  Ticket const ticket{control::random_key(), 4711};
  KeyDesk desk(std::make_unique<control::Door>(io, "muster/" + job), *seal, job, 3, ticket, {});
  std::thread server([&] { io.run_for(20s); });
  auto const at = control::local_endpoint("muster/" + job);
  asio::io_context mine;
  auto const given = ask_for_ticket(mine, at, *seal, job, 2, Deadline(5s));
  CHECK((given.key == ticket.key && given.port == 4711));
  CHECK_THROWS_AS(ask_for_ticket(mine, at, *seal, "another", 2, Deadline(5s)), Error);
  CHECK_THROWS_AS(ask_for_ticket(mine, at, *seal, job, 3, Deadline(5s)), Error);
  CHECK_THROWS_AS(ask_for_ticket(mine, at, *seal, job, 0, Deadline(5s)), Error);
  for (const std::string& bytes : {std::string("GET / HTTP/1.1\r\n\r\n"), std::string(20000, 'x'),
                                   std::string("mustkey\x01\xff\xff\xff\xff", 12),
                                   std::string("mustkey\x01\x04\x00\x00\x00\x9f\x9f\x9f\x9f", 16)}) {
    control::Socket socket(mine);
    socket.connect(at);
    asio::error_code error;
    asio::write(socket, asio::buffer(bytes), error);
    char byte = 0;
    asio::read(socket, asio::buffer(&byte, 1), error);
    CHECK(error);  // cut off, without an answer
  }
  asio::post(io, [&] {
    desk.close();
    io.stop();
  });
  server.join();
}

TEST_CASE("no credential is made for a desk that is not there") {
  struct Counting : Seal {
    std::vector<std::uint8_t> close(std::span<const std::uint8_t> bytes) override {
      ++closed;
      return {bytes.begin(), bytes.end()};
    }
    std::vector<std::uint8_t> open(std::span<const std::uint8_t> sealed) override {
      return {sealed.begin(), sealed.end()};
    }
    int closed = 0;
  } seal;
  asio::io_context mine;
  auto const nobody = control::local_endpoint("muster/" + new_job());
  CHECK_THROWS_AS(ask_for_ticket(mine, nobody, seal, "job", 1, Deadline(1s)), Error);
  CHECK(seal.closed == 0);
}

TEST_CASE("ranks of a job whose name is longer than a socket's may be meet, and not those of another") {
  auto const job = new_job() + std::string(200, 'x');
  check_complete(meet({plan_of(job + "1", 0, 2), plan_of(job + "1", 1, 2)}, 10s));
  CHECK(control::local_endpoint(job + "1") != control::local_endpoint(job + "2"));
}

TEST_CASE("a desk that accepts but never answers does not hold a rank beyond its deadline") {
  auto const seal = kernel_seal();
  asio::io_context mine;
  auto const began = std::chrono::steady_clock::now();
  asio::io_context tcp;
  asio::ip::tcp::acceptor silent(tcp, asio::ip::tcp::endpoint(asio::ip::address_v4::loopback(), 0));
  CHECK_THROWS_AS(
      ask_for_ticket(mine,
                     control::tcp_endpoint(asio::ip::address_v4::loopback(), silent.local_endpoint().port()),
                     *seal, "job", 1, Deadline(300ms)),
      Error);
  CHECK(std::chrono::steady_clock::now() - began < 2s);
}
