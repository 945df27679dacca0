// SPDX-License-Identifier: Apache-2.0
// A rank is lost while a thread of Muster waits for it: the program has not observed the loss until a call of
// its own throws.
#include <atomic>

#include "catch.hpp"
#include "communicator/control_plane/control_plane_communicator.hpp"
#include "muster/communicator.hpp"
#include "muster/reducer.hpp"
#include "runtime/communicator/contexts.hpp"
#include "runtime/scenarios/errors.hpp"

using namespace muster;
using namespace std::chrono_literals;

namespace {

// Runs `call` on rank 0 of two. Rank 1 makes the communicators that `call` makes, and ends without a call.
struct LossOfRank1 {
  template <typename Call>
  explicit LossOfRank1(Call call) {
    fixture.planes[0]->on_loss(
        [this](const control::Failure&) { on_loss_thread = std::this_thread::get_id(); }, 10s);
    auto const thrown = fixture.run_on_all([&](int rank, control::ControlPlane& plane) {
      Communicator world(std::make_shared<detail::ControlPlaneCommunicator>(
          detail::CommunicatorGroup(make_connected_context(fixture, rank, 60s), "host")));
      Reducer reducer(world, std::vector<std::size_t>{1000}, {.bucket_bytes = 4000});
      if (rank == 1) {
        // Rank 0 may still make its communicators, and a loss then would end that.
        for (Deadline const limit(100s); !is_ready && !limit.passed();) std::this_thread::sleep_for(1ms);
        return plane.abort_connections();
      }
      program = std::this_thread::get_id();
      is_ready = true;
      call(world, reducer);
    });
    if (thrown[0]) error = thrown[0];
  }

  bool observed() const { return fixture.planes[0]->failure_observed(); }

  ControlPlaneFixture fixture{2};
  std::atomic<bool> is_ready{false};
  std::thread::id program, on_loss_thread;
  std::optional<Error> error;
};

}  // namespace

TEST_CASE("the program has not observed a loss whose error a dropped Work or Reducer had") {
  SECTION("Work") {
    LossOfRank1 const loss([](Communicator& world, Reducer&) {
      std::vector<float> values(10);
      auto const work = world.all_reduce_async(values);
    });
    CHECK_FALSE(loss.error);
    CHECK_FALSE(loss.observed());
  }
  SECTION("Reducer") {
    LossOfRank1 const loss([](Communicator&, Reducer& reducer) { reducer.ready(0); });
    CHECK_FALSE(loss.error);
    CHECK_FALSE(loss.observed());
  }
}

TEST_CASE("the program observes a loss that a Work or Reducer throws, and on_loss() runs on its thread") {
  auto const check_observed = [](const LossOfRank1& loss) {
    REQUIRE(loss.error);
    CHECK(loss.error->code() == ErrorCode::lost_rank);
    CHECK_FALSE(loss.error->reported_elsewhere());
    CHECK(loss.observed());
    CHECK(loss.on_loss_thread == loss.program);
  };
  SECTION("wait()") {
    check_observed(LossOfRank1([](Communicator& world, Reducer&) {
      std::vector<float> values(10);
      world.all_reduce_async(values).wait();
    }));
  }
  SECTION("test()") {
    check_observed(LossOfRank1([](Communicator& world, Reducer&) {
      std::vector<float> values(10);
      auto work = world.all_reduce_async(values);
      while (!work.test()) std::this_thread::yield();
    }));
  }
  SECTION("the next call after a dropped Work") {
    check_observed(LossOfRank1([](Communicator& world, Reducer&) {
      std::vector<float> values(10);
      { auto const work = world.all_reduce_async(values); }
      world.synchronize();
    }));
  }
  SECTION("finish()") {
    check_observed(LossOfRank1([](Communicator&, Reducer& reducer) {
      reducer.ready(0);
      reducer.finish();
    }));
  }
}
