// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <memory>
#include <span>

#include "c/call.hpp"

namespace {

using muster::DataType;
using muster::Error;
using muster::ErrorCode;
using muster::Reduction;
using muster::Stream;
using muster::c::call;
using muster::c::require_not_null;
using muster::detail::CollectiveCall;
using Kind = muster::detail::OperationKind;

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

// `last`: the last enumerator.
template <typename Enum>
Enum parse(int value, Enum last, const char* function, const char* what) {
  if (value >= 0 && value <= static_cast<int>(last)) return static_cast<Enum>(value);
  throw Error(ErrorCode::usage, fmt::format("{}: {} is not {} of muster.h", function, value, what));
}

void require_buffer(const void* buffer, std::size_t count) {
  if (buffer == nullptr && count > 0)
    throw Error(ErrorCode::usage, fmt::format("a null pointer was given for a buffer of {} elements", count));
}

void set_reduction(CollectiveCall& operation, int reduction, const muster_communicator& its,
                   const char* function) {
  if (reduction != MUSTER_PREMUL_SUM) {
    operation.reduction = parse(reduction, Reduction::product, function, "a reduction");
  } else if (its.factor) {
    operation.factor = its.factor;
  } else {
    throw Error(ErrorCode::usage, fmt::format("{}: muster_premul_factor() was not called", function));
  }
}

// Checks and runs one operation of the C interface.
void run(muster_communicator& its, const char* function, CollectiveCall operation, int type, int reduction,
         void* stream) {
  auto const ranks = static_cast<std::size_t>(its.communicator.size());
  auto const with_counts = [&](std::span<const std::size_t> counts) {
    return std::span(&require_not_null(counts.data(), function, "list of counts"), ranks);
  };
  operation.type = parse(type, DataType::uint64, function, "an element type");
  set_reduction(operation, reduction, its, function);
  bool const is_all_to_all_v = operation.kind == Kind::all_to_all_v;
  if (operation.kind == Kind::all_gather_v || operation.kind == Kind::reduce_scatter_v || is_all_to_all_v)
    operation.counts = with_counts(operation.counts);
  if (is_all_to_all_v) {
    operation.recv_counts = with_counts(operation.recv_counts);
  } else if (!operation.counts.empty()) {
    operation.count = operation.counts[static_cast<std::size_t>(its.communicator.rank())];
  }
  require_buffer(operation.in, operation.in_count(ranks));
  require_buffer(operation.out, operation.out_count(ranks));
  its.run(operation, Stream(stream));
}

int run(muster_communicator* communicator, const char* function, const CollectiveCall& operation, int type,
        int reduction, void* stream) noexcept {
  return call([&] {
    run(require_not_null(communicator, function, "communicator"), function, operation, type, reduction,
        stream);
  });
}

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

int muster_premul_factor(muster_communicator* communicator, double factor) {
  return call(
      [&] { require_not_null(communicator, "muster_premul_factor", "communicator").factor = factor; });
}

int muster_all_reduce(muster_communicator* communicator, const void* in, void* out, size_t count, int type,
                      int reduction, void* stream) {
  return run(communicator, "muster_all_reduce", {Kind::all_reduce, in, out, count}, type, reduction, stream);
}

int muster_reduce(muster_communicator* communicator, void* buffer, size_t count, int type, int reduction,
                  int root, void* stream) {
  return run(communicator, "muster_reduce",
             {.kind = Kind::reduce, .in = buffer, .out = buffer, .count = count, .peer = root}, type,
             reduction, stream);
}

int muster_broadcast(muster_communicator* communicator, void* buffer, size_t count, int type, int root,
                     void* stream) {
  return run(communicator, "muster_broadcast",
             {.kind = Kind::broadcast, .in = buffer, .out = buffer, .count = count, .peer = root}, type,
             MUSTER_SUM, stream);
}

int muster_all_gather(muster_communicator* communicator, const void* mine, size_t count, void* all, int type,
                      void* stream) {
  return run(communicator, "muster_all_gather", {Kind::all_gather, mine, all, count}, type, MUSTER_SUM,
             stream);
}

int muster_all_gather_v(muster_communicator* communicator, const void* mine, void* all, const size_t* counts,
                        int type, void* stream) {
  return run(communicator, "muster_all_gather_v",
             {.kind = Kind::all_gather_v, .in = mine, .out = all, .counts = {counts, std::size_t{0}}}, type,
             MUSTER_SUM, stream);
}

int muster_reduce_scatter(muster_communicator* communicator, const void* all, void* mine, size_t count,
                          int type, int reduction, void* stream) {
  return run(communicator, "muster_reduce_scatter", {Kind::reduce_scatter, all, mine, count}, type, reduction,
             stream);
}

int muster_reduce_scatter_v(muster_communicator* communicator, const void* all, void* mine,
                            const size_t* counts, int type, int reduction, void* stream) {
  return run(communicator, "muster_reduce_scatter_v",
             {.kind = Kind::reduce_scatter_v, .in = all, .out = mine, .counts = {counts, std::size_t{0}}},
             type, reduction, stream);
}

int muster_all_to_all(muster_communicator* communicator, const void* in, void* out, size_t count, int type,
                      void* stream) {
  return run(communicator, "muster_all_to_all", {Kind::all_to_all, in, out, count}, type, MUSTER_SUM, stream);
}

int muster_all_to_all_v(muster_communicator* communicator, const void* in, void* out,
                        const size_t* send_counts, const size_t* recv_counts, int type, void* stream) {
  return run(communicator, "muster_all_to_all_v",
             {.kind = Kind::all_to_all_v,
              .in = in,
              .out = out,
              .counts = {send_counts, std::size_t{0}},
              .recv_counts = {recv_counts, std::size_t{0}}},
             type, MUSTER_SUM, stream);
}

int muster_send(muster_communicator* communicator, const void* buffer, size_t count, int type, int to,
                void* stream) {
  return run(communicator, "muster_send", {.kind = Kind::send, .in = buffer, .count = count, .peer = to},
             type, MUSTER_SUM, stream);
}

int muster_recv(muster_communicator* communicator, void* buffer, size_t count, int type, int from,
                void* stream) {
  return run(communicator, "muster_recv",
             {.kind = Kind::recv, .in = buffer, .out = buffer, .count = count, .peer = from}, type,
             MUSTER_SUM, stream);
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

int muster_group_issue_async(muster_group* group, muster_work** work) {
  return call([&] {
    require_not_null(work, "muster_group_issue_async", "place for the work") = nullptr;
    std::unique_ptr<muster_group> const ends(&require_not_null(group, "muster_group_issue_async", "group"));
    *work = new muster_work{ends->calls.issue_async()};
  });
}

int muster_all_reduce_async(muster_communicator* communicator, const void* in, void* out, size_t count,
                            int type, int reduction, void* stream, muster_work** work) {
  constexpr auto name = "muster_all_reduce_async";
  return call([&] {
    require_not_null(work, name, "place for the work") = nullptr;
    auto& its = require_not_null(communicator, name, "communicator");
    muster::CallGroup group(its.communicator);
    run(its, name, {Kind::all_reduce, in, out, count}, type, reduction, stream);
    *work = new muster_work{group.issue_async()};
  });
}

int muster_work_wait(muster_work* work) {
  return call([&] { require_not_null(work, "muster_work_wait", "work").work.wait(); });
}

int muster_work_wait_for(muster_work* work, int64_t timeout_ms, int* complete) {
  return call([&] {
    require_not_null(complete, "muster_work_wait_for", "place for the answer") = 0;
    auto& its = require_not_null(work, "muster_work_wait_for", "work");
    *complete = its.work.wait_for(std::chrono::milliseconds{timeout_ms}) ? 1 : 0;
  });
}

int muster_work_test(muster_work* work, int* complete) {
  return call([&] {
    require_not_null(complete, "muster_work_test", "place for the answer") = 0;
    *complete = require_not_null(work, "muster_work_test", "work").work.test() ? 1 : 0;
  });
}

void muster_work_free(muster_work* work) { delete work; }

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
