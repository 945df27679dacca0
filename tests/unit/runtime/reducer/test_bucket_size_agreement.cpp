// SPDX-License-Identifier: Apache-2.0
// What the ranks of a Reducer must have in common.
#include "catch.hpp"
#include "communicator/control_plane/control_plane_communicator.hpp"
#include "has.hpp"
#include "reducer/bucket_size_agreement.hpp"
#include "runtime/communicator/contexts.hpp"
#include "runtime/control_plane/thrown_errors.hpp"

using namespace muster;
using namespace std::chrono_literals;

TEST_CASE("when a rank has other parameters or options than rank 0, the error says which and where") {
  ReducerOptions options{.bucket_bytes = 4096}, other_options = options;
  std::vector<std::size_t> const sizes{10, 20, 30};
  auto other_sizes = sizes;
  std::string text;
  SECTION("an option") {
    other_options.chunks = 8;
    text =
        "reducer: rank 1 (host h1, GPU 0000:01:00.0) has another ReducerOptions::chunks than rank 0 (host "
        "h0, "
        "GPU 0000:00:00.0)";
  }
  SECTION("the number of parameters") {
    other_sizes.push_back(40);
    text =
        "reducer: rank 1 (host h1, GPU 0000:01:00.0) has 4 parameters, but rank 0 (host h0, GPU "
        "0000:00:00.0) "
        "has 3";
  }
  SECTION("a parameter") {
    other_sizes[1] = 21;
    text =
        "reducer: parameter 1 has 21 elements on rank 1 (host h1, GPU 0000:01:00.0), but 20 on rank 0 (host "
        "h0, "
        "GPU 0000:00:00.0)";
  }
  ControlPlaneFixture fixture(3);
  auto const thrown = fixture.run_on_all([&](int rank, control::ControlPlane&) {
    detail::ControlPlaneCommunicator comm(
        detail::CommunicatorGroup(make_connected_context(fixture, rank, 60s), "host"));
    detail::agree_on_bucket_bytes(comm, nullptr, rank == 1 ? other_sizes : sizes,
                                  rank == 1 ? other_options : options);
  });
  for (const auto& error : thrown) {
    REQUIRE(error);
    CHECK(error->code() == ErrorCode::usage);
    CHECK(error->what() == text);
  }
  CHECK(count_reporters(thrown) == 1);
}
