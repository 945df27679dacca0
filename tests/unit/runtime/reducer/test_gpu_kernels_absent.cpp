// SPDX-License-Identifier: Apache-2.0
// The reducer's modes on GPU memory in a library that was built without nvcc.
#include "muster/reducer.hpp"
#include "runtime/fakes/on_fakes.hpp"

using namespace muster;

TEST_CASE("when built without nvcc, the modes that need kernels are rejected on a GPU, with a remedy") {
  OnFakes fakes;
  for (const ReducerOptions& options : {ReducerOptions{.bfloat16 = true}, ReducerOptions{.chunks = 3}}) {
    auto const error = catch_error([&] { Reducer(*fakes.world, std::vector<std::size_t>{10}, options); });
    CHECK(error.code() == ErrorCode::usage);
    CHECK(has(error.what(), options.bfloat16 ? "bfloat16 on GPU memory" : "(chunks) on GPU memory"));
    CHECK(has(error.what(), "built without nvcc"));
    CHECK(has(error.what(), "host_world()"));
  }
  Reducer reducer(*fakes.world, std::vector<std::size_t>{10});
  reducer.gradient(0)[9] = 4;
  reducer.ready(0);
  reducer.finish();
  CHECK(reducer.gradient(0)[9] == 4);
}
