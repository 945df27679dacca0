// SPDX-License-Identifier: Apache-2.0
// A job from join() to leave(), as one of its ranks has it; the ranks are threads of one process.
#include <unistd.h>

#include <array>
#include <cstdio>
#include <new>
#include <optional>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>

#include "catch.hpp"
#include "has.hpp"
#include "job/job_internals.hpp"
#include "job/job_state.hpp"
#include "runtime/communicator/contexts.hpp"
#include "runtime/control_plane/thrown_errors.hpp"
#include "runtime/scenarios/errors.hpp"

using namespace muster;
using namespace muster::control;
using namespace std::chrono_literals;

namespace {

// A ParameterClient checks the job that it was made in, also after shrink() and grow().
static_assert(std::is_same_v<decltype(detail::JobInternals::plane(std::declval<Job&>())),
                             std::shared_ptr<ControlPlane>>);

// Keeps the deadline of its end, or fails there.
class EndingGpu : public detail::Gpu {
 public:
  const std::string& pci_address() const noexcept override { return none_; }
  const std::string& uuid() const noexcept override { return none_; }
  const std::string& nccl_version() const noexcept override { return none_; }
  std::shared_ptr<detail::CommunicatorBackend> world(detail::CommunicatorGroup, const Deadline&) override {
    return nullptr;
  }
  void finalize(const Deadline& deadline) override {
    end_ = deadline;
    if (fails) throw std::bad_alloc();
  }
  void abort_all() noexcept override {}
  void abort() noexcept override {}
  const std::optional<Deadline>& end() const { return end_; }

  bool fails = false;

 private:
  std::string none_;
  std::optional<Deadline> end_;
};

// What `call` prints.
template <typename Call>
std::string stderr_of(Call call) {
  std::FILE* const file = std::tmpfile();
  REQUIRE(file != nullptr);
  int const before = ::dup(STDERR_FILENO);
  ::dup2(::fileno(file), STDERR_FILENO);
  call();
  std::fflush(stderr);
  ::dup2(before, STDERR_FILENO);
  ::close(before);
  std::rewind(file);
  std::array<char, 4096> text{};
  auto const length = std::fread(text.data(), 1, text.size(), file);
  std::fclose(file);
  return {text.data(), length};
}

std::unique_ptr<detail::JobState> make_state(const ControlPlaneFixture& fixture, int rank,
                                             std::chrono::milliseconds deadline) {
  auto state = std::make_unique<detail::JobState>();
  state->options.deadline = deadline;
  *state->context = *make_connected_context(fixture, rank, deadline);
  state->bootstrap = bootstrap::make_singleton_bootstrap();
  state->left = false;
  return state;
}

}  // namespace

TEST_CASE("leave() has its whole limit for the communicators, also if the last rank came late") {
  constexpr auto limit = 60s;
  ControlPlaneFixture fixture(2);
  Deadline::Clock::time_point late;
  auto const gpu = std::make_shared<EndingGpu>();
  auto const thrown = fixture.run_on_all([&](int rank, ControlPlane&) {
    auto const state = make_state(fixture, rank, limit);
    if (rank == 0) {
      state->communicators.gpu = gpu;
    } else {
      std::this_thread::sleep_for(100ms);
      late = Deadline::Clock::now();
    }
    state->leave();
  });
  check_no_errors(thrown);
  REQUIRE(gpu->end());
  CHECK(gpu->end()->when() >= late + limit);
}

TEST_CASE("the last wait of leave() is shorter by the time that its first one took") {
  ControlPlaneFixture fixture(2);
  auto const thrown = fixture.run_on_all([&](int rank, ControlPlane& plane) {
    if (rank == 1) {
      std::this_thread::sleep_for(100ms);
      return plane.barrier("leave", 60s);  // and then nothing
    }
    auto const state = make_state(fixture, rank, 2s);
    bootstrap::JoinRecord request;
    request.gathers_telemetry = true;
    state->telemetry = std::make_unique<observe::Telemetry>(request, state->context->roster, rank,
                                                            state->context->plane, nullptr);
    state->leave();
  });
  REQUIRE(thrown[0]);
  CHECK(thrown[0]->code() == ErrorCode::deadline);
  INFO(thrown[0]->what());
  CHECK(has(thrown[0]->what(), "leave: 1 of 2 ranks missing after "));
  CHECK_FALSE(has(thrown[0]->what(), "after 2 s"));
  CHECK_FALSE(has(thrown[0]->what(), "after 3 s"));  // with the time for the gathering
}

TEST_CASE("the destructor prints what ends leave(), also if it is none of Muster's errors") {
  auto const gpu = std::make_shared<EndingGpu>();
  gpu->fails = true;
  auto const lines = stderr_of([&] {
    ControlPlaneFixture fixture(1);
    make_state(fixture, 0, 20s)->communicators.gpu = gpu;
  });
  REQUIRE(gpu->end());
  CHECK(lines == "muster: leave failed on rank 0 (host h0, GPU 0000:00:00.0): std::bad_alloc\n");
}

TEST_CASE("whatever on_rank_lost()'s function throws is dropped, and the call throws the loss") {
  bool const is_error = GENERATE(true, false);
  ControlPlaneFixture fixture(2);
  auto const thrown = fixture.run_on_all([&](int rank, ControlPlane& plane) {
    if (rank == 1) return plane.abort_connections();
    auto const state = make_state(fixture, rank, 20s);
    state->save = [is_error](const RankLoss&) {
      if (is_error) throw Error(ErrorCode::system, "the disk is full");
      throw 5;
    };
    state->register_loss_handler();
    plane.barrier("epoch", 20s);
  });
  REQUIRE(thrown[0]);
  CHECK(thrown[0]->code() == ErrorCode::lost_rank);
}

TEST_CASE("after leave() the store of a job of one rank refuses every call") {
  detail::JobState state;
  state.context->roster = ControlPlaneFixture::make_roster(1);
  state.bootstrap = bootstrap::make_singleton_bootstrap();
  state.left = false;
  auto const store = state.store_plane();
  store->put("key", {});
  state.leave();
  CHECK(catch_error_code([&] { store->put("key", {}); }) == ErrorCode::usage);
  CHECK(catch_error_code([&] { store->get("key", 60s); }) == ErrorCode::usage);
}
