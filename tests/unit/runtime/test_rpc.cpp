// SPDX-License-Identifier: Apache-2.0
// Questions that the control plane's thread of one rank answers to another.
#include <atomic>

#include "catch.hpp"
#include "control_plane_fixture.hpp"

using namespace muster;
using namespace muster::control;
using namespace std::chrono_literals;

namespace {

void answer_with_rank(Star& star) {
  for (std::size_t r = 0; r < star.planes.size(); ++r) {
    star.planes[r]->answer("rank", [r](const Blob& question) -> std::optional<Blob> {
      auto answer = question;
      answer.push_back(static_cast<std::uint8_t>(r));
      return answer;
    });
  }
}

}  // namespace

TEST_CASE("every rank can ask every other, itself too, and through a host's leader") {
  Star star(4, 4, {0, 1, 0, 1});
  answer_with_rank(star);
  auto const thrown = star.on_each([](int rank, ControlPlane& plane) {
    auto const mine = static_cast<std::uint8_t>(100 + rank);
    auto const answers = plane.ask_ranks({3, 0, 2, 1}, "rank", Blob{mine}, 20s);
    std::vector<Blob> came;
    for (const auto& answer : answers) came.push_back(answer.value_or(Blob{}));
    if (came != std::vector<Blob>{{mine, 3}, {mine, 0}, {mine, 2}, {mine, 1}})
      throw Error(ErrorCode::system, "other answers");
  });
  for (const auto& error : thrown) CHECK(!error);
}

TEST_CASE("what nobody answers has no answer, and the job goes on") {
  Star star(3);
  star.planes[1]->answer("none", [](const Blob&) { return std::optional<Blob>(); });
  CHECK_FALSE(star.planes[0]->ask_ranks({1}, "none", {}, 20s)[0]);
  CHECK_FALSE(star.planes[0]->ask_ranks({1}, "unheard of", {}, 20s)[0]);
  CHECK_FALSE(star.planes[0]->failed());
}

TEST_CASE("a rank that does not answer is waited for until the deadline, and the others' answers count") {
  Star star(3, 2);  // rank 2 never came
  answer_with_rank(star);
  // Without all ranks there is no barrier that tells when rank 0 has let this one in.
  auto const until = std::chrono::steady_clock::now() + 20s;
  while (!star.planes[0]->ask_ranks({1}, "rank", {}, 200ms)[0] && std::chrono::steady_clock::now() < until) {
  }
  auto const answers = star.planes[0]->ask_ranks({2, 1}, "rank", {}, 2s);
  CHECK_FALSE(answers[0]);
  CHECK(answers[1] == Blob{1});
  CHECK_FALSE(star.planes[0]->failed());
}

TEST_CASE("survivors still answer after the job has failed") {
  Star star(3);
  answer_with_rank(star);
  star.planes[2]->abandon();
  auto const until = std::chrono::steady_clock::now() + 20s;
  while (!star.planes[1]->failed() && std::chrono::steady_clock::now() < until)
    std::this_thread::sleep_for(1ms);
  REQUIRE(star.planes[1]->failed());
  auto const answers = star.planes[0]->ask_ranks({1, 2}, "rank", {}, 2s);
  CHECK(answers[0] == Blob{1});
  CHECK_FALSE(answers[1]);
}

TEST_CASE("an answer that comes too late disturbs no later question") {
  Star star(2);
  std::atomic<int> asked{0};
  star.planes[1]->answer("slow", [&](const Blob&) -> std::optional<Blob> {
    if (asked++ == 0) std::this_thread::sleep_for(300ms);
    return Blob{7};
  });
  CHECK_FALSE(star.planes[0]->ask_ranks({1}, "slow", {}, 50ms)[0]);
  CHECK(star.planes[0]->ask_ranks({1}, "slow", {}, 20s)[0] == Blob{7});
}
