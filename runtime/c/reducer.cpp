// SPDX-License-Identifier: Apache-2.0
#include "muster/reducer.hpp"

#include <fmt/format.h>

#include <memory>
#include <span>
#include <vector>

#include "c/call.hpp"
#include "c/structures.hpp"

struct muster_reducer {
  muster::Reducer reducer;
};

namespace {

using muster::Error;
using muster::ErrorCode;
using muster::Reducer;
using muster::Stream;
using muster::c::call;
using muster::c::require_not_null;

constexpr muster_reducer_options reducer_defaults = MUSTER_REDUCER_OPTIONS_DEFAULT;
constexpr muster::ReducerOptions cpp_reducer_defaults;
static_assert(reducer_defaults.bucket_bytes == cpp_reducer_defaults.bucket_bytes &&
              reducer_defaults.chunks == cpp_reducer_defaults.chunks &&
              reducer_defaults.reduction == static_cast<int>(cpp_reducer_defaults.reduction) &&
              reducer_defaults.bfloat16 == int{cpp_reducer_defaults.bfloat16} &&
              reducer_defaults.overlap == int{cpp_reducer_defaults.overlap} &&
              reducer_defaults.type == static_cast<int>(cpp_reducer_defaults.type));

muster::ReducerOptions convert_reducer_options(const muster_reducer_options* given) {
  if (given == nullptr) return {};
  constexpr auto function = "muster_reducer_new";
  auto const known = muster::c::known_part(*given, reducer_defaults, function, "muster_reducer_options");
  if (known.type < MUSTER_FLOAT32 || known.type > MUSTER_UINT64)
    throw Error(ErrorCode::usage,
                fmt::format("muster_reducer_new: type is {}, which is not a type of muster.h", known.type));
  return {.reduction = static_cast<muster::Reduction>(known.reduction),
          .bucket_bytes = known.bucket_bytes,
          .bfloat16 = muster::c::parse_flag(known.bfloat16, function, "bfloat16"),
          .chunks = known.chunks,
          .overlap = muster::c::parse_flag(known.overlap, function, "overlap"),
          .type = static_cast<muster::DataType>(known.type)};
}

template <typename T>
Reducer on_memory(const muster::Communicator& world, void* const* places, std::span<const std::size_t> sizes,
                  const muster::ReducerOptions& options) {
  std::vector<std::span<T>> gradients;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    if (places[i] == nullptr && sizes[i] > 0)
      throw Error(ErrorCode::usage,
                  fmt::format("muster_reducer_new: the gradient of parameter {} is null", i));
    gradients.emplace_back(static_cast<T*>(places[i]), sizes[i]);
  }
  return Reducer(world, gradients, options);
}

// `places` may be null: the reducer then allocates the gradients.
Reducer make_reducer(const muster::Communicator& world, void* const* places,
                     std::span<const std::size_t> sizes, const muster::ReducerOptions& options) {
  if (places == nullptr) return Reducer(world, sizes, options);
  switch (options.type) {
    case muster::DataType::float64:
      return on_memory<double>(world, places, sizes, options);
    case muster::DataType::bfloat16:
      return on_memory<muster::bfloat16>(world, places, sizes, options);
    case muster::DataType::float32:
      return on_memory<float>(world, places, sizes, options);
    default:
      return Reducer(world, sizes, options);  // throws: it reduces no other type
  }
}

const Reducer& get_reducer(const muster_reducer* reducer, const char* function) {
  return require_not_null(reducer, function, "reducer").reducer;
}
Reducer& get_reducer(muster_reducer* reducer, const char* function) {
  return require_not_null(reducer, function, "reducer").reducer;
}

}  // namespace

int muster_reducer_new(muster_communicator* communicator, size_t parameters, const size_t* sizes,
                       void* const* gradients, const muster_reducer_options* options,
                       muster_reducer** reducer) {
  return call([&] {
    constexpr auto function = "muster_reducer_new";
    require_not_null(reducer, function, "place for the reducer") = nullptr;
    auto const& its = require_not_null(communicator, function, "communicator").communicator;
    if (parameters > 0) (void)require_not_null(sizes, function, "list of sizes");
    std::span const all(sizes, parameters);
    auto const wanted = convert_reducer_options(options);
    *reducer = new muster_reducer{make_reducer(its, gradients, all, wanted)};
  });
}

void muster_reducer_free(muster_reducer* reducer) { delete reducer; }

// The reducer aborts its work when it is destroyed while an exception unwinds.
void muster_reducer_drop(muster_reducer* reducer) {
  struct Dropped {};
  try {
    std::unique_ptr<muster_reducer> const ends(reducer);
    throw Dropped();
  } catch (const Dropped&) {
  }
}

int muster_reducer_gradient(const muster_reducer* reducer, size_t parameter, void** gradient, size_t* count) {
  return call([&] {
    auto& place = require_not_null(gradient, "muster_reducer_gradient", "place for the gradient");
    auto const memory = get_reducer(reducer, "muster_reducer_gradient").gradient_bytes(parameter);
    place = memory.data();
    if (count != nullptr) *count = memory.size() / size_of(reducer->reducer.type());
  });
}

int muster_reducer_ready(muster_reducer* reducer, size_t parameter, void* stream) {
  return call([&] { get_reducer(reducer, "muster_reducer_ready").ready(parameter, Stream(stream)); });
}

int muster_reducer_finish(muster_reducer* reducer, void* stream) {
  return call([&] { get_reducer(reducer, "muster_reducer_finish").finish(Stream(stream)); });
}

int muster_reducer_chunks(const muster_reducer* reducer, uint64_t* begin, uint64_t* end) {
  return call([&] {
    auto const chunks = get_reducer(reducer, "muster_reducer_chunks").chunks();
    require_not_null(begin, "muster_reducer_chunks", "place for the first chunk") = chunks.begin;
    require_not_null(end, "muster_reducer_chunks", "place for the chunks' end") = chunks.end;
  });
}

size_t muster_reducer_parameters(const muster_reducer* reducer) {
  return reducer == nullptr ? 0 : reducer->reducer.parameters();
}
size_t muster_reducer_buckets(const muster_reducer* reducer) {
  return reducer == nullptr ? 0 : reducer->reducer.buckets();
}
size_t muster_reducer_bucket_bytes(const muster_reducer* reducer) {
  return reducer == nullptr ? 0 : reducer->reducer.bucket_bytes();
}

int muster_reducer_last_step(const muster_reducer* reducer, muster_reducer_statistics* statistics) {
  return call([&] {
    auto const last = get_reducer(reducer, "muster_reducer_last_step").last_step();
    auto& place = require_not_null(statistics, "muster_reducer_last_step", "place for the statistics");
    muster::c::require_size(place, "muster_reducer_last_step", "muster_reducer_statistics");
    muster::c::fill(place,
                    {place.size, last.step, last.buckets, last.bytes, last.communication, last.exposed});
  });
}
