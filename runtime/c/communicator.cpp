// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <memory>
#include <numeric>
#include <span>

#include "c/call.hpp"

namespace {

using muster::Communicator;
using muster::DataType;
using muster::Error;
using muster::ErrorCode;
using muster::Reduction;
using muster::Stream;
using muster::c::call;
using muster::c::require_not_null;

static_assert(static_cast<int>(DataType::float32) == MUSTER_FLOAT32 &&
              static_cast<int>(DataType::float64) == MUSTER_FLOAT64 &&
              static_cast<int>(DataType::bfloat16) == MUSTER_BFLOAT16 &&
              static_cast<int>(DataType::float16) == MUSTER_FLOAT16 &&
              static_cast<int>(DataType::int8) == MUSTER_INT8 &&
              static_cast<int>(DataType::uint8) == MUSTER_UINT8 &&
              static_cast<int>(DataType::int32) == MUSTER_INT32 &&
              static_cast<int>(DataType::uint32) == MUSTER_UINT32 &&
              static_cast<int>(DataType::int64) == MUSTER_INT64 &&
              static_cast<int>(DataType::uint64) == MUSTER_UINT64);
static_assert(static_cast<int>(Reduction::sum) == MUSTER_SUM &&
              static_cast<int>(Reduction::average) == MUSTER_AVERAGE &&
              static_cast<int>(Reduction::min) == MUSTER_MIN &&
              static_cast<int>(Reduction::max) == MUSTER_MAX &&
              static_cast<int>(Reduction::product) == MUSTER_PRODUCT);

// Runs one operation of the C interface: checks what every operation needs and calls `what` with the
// communicator and a null pointer to the element type.
template <typename What>
int operate(muster_communicator* communicator, const char* function, int type, const What& what) noexcept {
  return call([&] {
    Communicator& its = require_not_null(communicator, function, "communicator").communicator;
    auto const with = [&]<typename T>(T* tag) { what(its, tag); };
    switch (type) {
      case MUSTER_FLOAT32:
        return with(static_cast<float*>(nullptr));
      case MUSTER_FLOAT64:
        return with(static_cast<double*>(nullptr));
      case MUSTER_BFLOAT16:
        return with(static_cast<muster::bfloat16*>(nullptr));
      case MUSTER_FLOAT16:
        return with(static_cast<muster::half*>(nullptr));
      case MUSTER_INT8:
        return with(static_cast<std::int8_t*>(nullptr));
      case MUSTER_UINT8:
        return with(static_cast<std::uint8_t*>(nullptr));
      case MUSTER_INT32:
        return with(static_cast<std::int32_t*>(nullptr));
      case MUSTER_UINT32:
        return with(static_cast<std::uint32_t*>(nullptr));
      case MUSTER_INT64:
        return with(static_cast<std::int64_t*>(nullptr));
      case MUSTER_UINT64:
        return with(static_cast<std::uint64_t*>(nullptr));
      default:
        throw Error(ErrorCode::usage,
                    fmt::format("{}: {} is not an element type of muster.h", function, type));
    }
  });
}

Reduction parse_reduction(int reduction, const char* function) {
  if (reduction < MUSTER_SUM || reduction > MUSTER_PRODUCT)
    throw Error(ErrorCode::usage, fmt::format("{}: {} is not a reduction of muster.h", function, reduction));
  return static_cast<Reduction>(reduction);
}

void require_buffer(const void* buffer, std::size_t count) {
  if (buffer == nullptr && count > 0)
    throw Error(ErrorCode::usage, fmt::format("a null pointer was given for a buffer of {} elements", count));
}

template <typename T>
std::span<T> at(void* buffer, std::size_t count, T*) {
  require_buffer(buffer, count);
  return {static_cast<T*>(buffer), count};
}
template <typename T>
std::span<const T> at(const void* buffer, std::size_t count, T*) {
  require_buffer(buffer, count);
  return {static_cast<const T*>(buffer), count};
}

std::size_t ranks(const Communicator& its) { return static_cast<std::size_t>(its.size()); }

}  // namespace

int muster_split(muster_communicator* communicator, int color, int key, muster_communicator** part) {
  return call([&] {
    require_not_null(part, "muster_split", "place for the part") = nullptr;
    *part = new muster_communicator{
        require_not_null(communicator, "muster_split", "communicator").communicator.split(color, key)};
  });
}

void muster_communicator_free(muster_communicator* communicator) { delete communicator; }

int muster_communicator_rank(const muster_communicator* communicator) {
  return communicator == nullptr ? -1 : communicator->communicator.rank();
}
int muster_communicator_size(const muster_communicator* communicator) {
  return communicator == nullptr ? -1 : communicator->communicator.size();
}
const char* muster_backend(const muster_communicator* communicator) {
  return communicator == nullptr ? nullptr : communicator->communicator.backend();
}

int muster_all_reduce(muster_communicator* communicator, const void* in, void* out, size_t count, int type,
                      int reduction, void* stream) {
  return operate(communicator, "muster_all_reduce", type, [&](Communicator& its, auto* tag) {
    auto const op = parse_reduction(reduction, "muster_all_reduce");
    if (in == out) return its.all_reduce(at(out, count, tag), op, Stream(stream));
    its.all_reduce(at(in, count, tag), at(out, count, tag), op, Stream(stream));
  });
}

int muster_reduce(muster_communicator* communicator, void* buffer, size_t count, int type, int reduction,
                  int root, void* stream) {
  return operate(communicator, "muster_reduce", type, [&](Communicator& its, auto* tag) {
    its.reduce(at(buffer, count, tag), root, parse_reduction(reduction, "muster_reduce"), Stream(stream));
  });
}

int muster_broadcast(muster_communicator* communicator, void* buffer, size_t count, int type, int root,
                     void* stream) {
  return operate(communicator, "muster_broadcast", type, [&](Communicator& its, auto* tag) {
    its.broadcast(at(buffer, count, tag), root, Stream(stream));
  });
}

int muster_all_gather(muster_communicator* communicator, const void* mine, size_t count, void* all, int type,
                      void* stream) {
  return operate(communicator, "muster_all_gather", type, [&](Communicator& its, auto* tag) {
    its.all_gather(at(mine, count, tag), at(all, count * ranks(its), tag), Stream(stream));
  });
}

int muster_all_gather_v(muster_communicator* communicator, const void* mine, void* all, const size_t* counts,
                        int type, void* stream) {
  return operate(communicator, "muster_all_gather_v", type, [&](Communicator& its, auto* tag) {
    std::span const shares(&require_not_null(counts, "muster_all_gather_v", "list of counts"), ranks(its));
    auto const sum = std::accumulate(shares.begin(), shares.end(), std::size_t{0});
    its.all_gather_v(at(mine, shares[static_cast<std::size_t>(its.rank())], tag), at(all, sum, tag), shares,
                     Stream(stream));
  });
}

int muster_reduce_scatter(muster_communicator* communicator, const void* all, void* mine, size_t count,
                          int type, int reduction, void* stream) {
  return operate(communicator, "muster_reduce_scatter", type, [&](Communicator& its, auto* tag) {
    its.reduce_scatter(at(all, count * ranks(its), tag), at(mine, count, tag),
                       parse_reduction(reduction, "muster_reduce_scatter"), Stream(stream));
  });
}

int muster_all_to_all(muster_communicator* communicator, const void* in, void* out, size_t count, int type,
                      void* stream) {
  return operate(communicator, "muster_all_to_all", type, [&](Communicator& its, auto* tag) {
    its.all_to_all(at(in, count * ranks(its), tag), at(out, count * ranks(its), tag), Stream(stream));
  });
}

int muster_send(muster_communicator* communicator, const void* buffer, size_t count, int type, int to,
                void* stream) {
  return operate(communicator, "muster_send", type,
                 [&](Communicator& its, auto* tag) { its.send(at(buffer, count, tag), to, Stream(stream)); });
}

int muster_recv(muster_communicator* communicator, void* buffer, size_t count, int type, int from,
                void* stream) {
  return operate(communicator, "muster_recv", type, [&](Communicator& its, auto* tag) {
    its.recv(at(buffer, count, tag), from, Stream(stream));
  });
}

int muster_group_begin(muster_communicator* communicator, muster_group** group) {
  return call([&] {
    require_not_null(group, "muster_group_begin", "place for the group") = nullptr;
    *group =
        new muster_group(require_not_null(communicator, "muster_group_begin", "communicator").communicator);
  });
}

int muster_group_issue(muster_group* group) {
  return call([&] {
    std::unique_ptr<muster_group> const ends(&require_not_null(group, "muster_group_issue", "group"));
    ends->calls.issue();
  });
}

void muster_group_drop(muster_group* group) { delete group; }

int muster_communicator_barrier(muster_communicator* communicator, void* stream) {
  return call([&] {
    require_not_null(communicator, "muster_communicator_barrier", "communicator")
        .communicator.barrier(Stream(stream));
  });
}

int muster_synchronize(muster_communicator* communicator, void* stream) {
  return call([&] {
    require_not_null(communicator, "muster_synchronize", "communicator")
        .communicator.synchronize(Stream(stream));
  });
}
