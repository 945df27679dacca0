// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "catch.hpp"
#include "failure/operation_tracker.hpp"
#include "has.hpp"
#include "muster/collective_call.hpp"

using namespace muster;
using detail::CollectiveCall;
using detail::OperationKind;

namespace {

constexpr OperationKind collectives[] = {OperationKind::all_reduce,     OperationKind::reduce,
                                         OperationKind::broadcast,      OperationKind::all_gather,
                                         OperationKind::reduce_scatter, OperationKind::all_to_all};

// Calls that all differ in an argument that must be equal on all ranks.
std::vector<CollectiveCall> different_calls() {
  std::vector<CollectiveCall> calls{{.kind = OperationKind::barrier}};
  for (auto const kind : collectives) {
    bool const reduces = kind == OperationKind::all_reduce || kind == OperationKind::reduce ||
                         kind == OperationKind::reduce_scatter;
    bool const has_root = kind == OperationKind::reduce || kind == OperationKind::broadcast;
    for (std::size_t count : {1u, 2u, 777u, 1000u, 1u << 31})
      for (int type = 0; type < 10; ++type)
        for (int reduction = 0; reduction < (reduces ? 5 : 1); ++reduction)
          for (int root = 0; root < (has_root ? 3 : 1); ++root)
            calls.push_back({.kind = kind,
                             .count = count,
                             .type = static_cast<DataType>(type),
                             .reduction = static_cast<Reduction>(reduction),
                             .peer = root});
  }
  return calls;
}

}  // namespace

TEST_CASE("calls that differ have different digests and texts") {
  auto const calls = different_calls();
  std::set<std::uint64_t> digests;
  std::set<std::string> texts;
  for (const auto& call : calls) {
    digests.insert(call.digest());
    texts.insert(describe_call(call));
  }
  CHECK(digests.size() == calls.size());
  CHECK(texts.size() == calls.size());
}

TEST_CASE("arguments that may differ between ranks change neither digest nor text") {
  float here = 0, there = 0;
  CollectiveCall one{.kind = OperationKind::all_gather, .in = &here, .out = &there, .count = 3};
  CollectiveCall other{.kind = OperationKind::all_gather,
                       .in = &there,
                       .out = &there,
                       .count = 3,
                       .reduction = Reduction::max,
                       .peer = 2};
  CHECK(one.digest() == other.digest());
  CHECK(describe_call(one) == "all_gather of 3 float32");
  CHECK(describe_call(one) == describe_call(other));
}

TEST_CASE("a rank's digest depends on each of its operations and on their order") {
  CollectiveCall const barrier{.kind = OperationKind::barrier};
  CollectiveCall const sum{.kind = OperationKind::all_reduce, .count = 3};
  CollectiveCall const largest{.kind = OperationKind::all_reduce, .count = 3, .reduction = Reduction::max};
  std::set<std::uint64_t> digests;
  for (const auto& first : {barrier, sum, largest}) {
    for (const auto& second : {barrier, sum, largest}) {
      for (const char* third : {"split", "setting up"}) {
        control::OperationState state, same;
        for (auto* const one : {&state, &same}) {
          one->enter(first);
          one->enter(second);
          one->enter(third);
          for (int i = 0; i < 20; ++i) one->enter(sum);
        }
        CHECK(state.digest() == same.digest());
        CHECK(state.digests_until(3).size() == 3);
        CHECK(state.digests_until(23).front() == state.digest());
        CHECK(state.digests_until(24).empty());
        digests.insert(state.digest());
      }
    }
  }
  CHECK(digests.size() == 18);
}

TEST_CASE("a premul_sum is another call than a sum, and its factor may differ between ranks") {
  CollectiveCall sum{.kind = OperationKind::all_reduce, .count = 3};
  auto half = sum;
  half.factor = 0.5;
  auto one = sum;
  one.factor = 1;
  CHECK(half.digest() == one.digest());
  CHECK(describe_call(half) == "all_reduce of 3 float32, premul_sum");
  CHECK(describe_call(half) == describe_call(one));
  CHECK(sum.digest() != one.digest());
  CHECK(describe_call(sum) != describe_call(one));
  control::OperationState state;
  state.enter(half);
  CHECK(state.operation_at(1) == describe_call(half));
}

TEST_CASE("the counts of an all_gather_v are compared, and a long list of them is shortened") {
  std::vector<std::size_t> counts{1, 2, 3}, swapped{2, 1, 3};
  auto const kind = GENERATE(OperationKind::all_gather_v, OperationKind::reduce_scatter_v);
  CollectiveCall call{.kind = kind, .count = 1, .counts = counts};
  auto const own = call.digest();
  CHECK(has(describe_call(call), "_v of 1+2+3 float32"));
  call.count = 2;  // another rank's share
  CHECK(call.digest() == own);
  call.counts = swapped;
  CHECK(call.digest() != own);

  std::vector<std::size_t> many(100'000, 7);
  call.counts = many;
  auto const text = describe_call(call);
  CHECK(has(text, "100000 shares"));
  CHECK(text.size() < 100);
  many.back() = 8;
  CHECK(describe_call(call) != text);
}

TEST_CASE("the counts of an all_to_all_v differ between ranks, so they are not compared") {
  std::vector<std::size_t> counts{1, 2, 3}, others{3, 2, 1};
  CollectiveCall const here{.kind = OperationKind::all_to_all_v, .counts = counts, .recv_counts = others};
  CollectiveCall const there{.kind = OperationKind::all_to_all_v, .counts = others, .recv_counts = counts};
  CHECK(here.digest() == there.digest());
  CHECK(describe_call(here) == "all_to_all_v of float32");
  CHECK(describe_call(there) == describe_call(here));
}

TEST_CASE("a rank remembers its last calls with their arguments") {
  control::OperationState state;
  state.enter("setting up");
  for (std::size_t i = 2; i <= 100; ++i)
    state.enter({.kind = OperationKind::broadcast, .count = i, .type = DataType::int32, .peer = 1});
  CHECK(state.operation_at(100) == "broadcast of 100 int32, root 1");
  CHECK(state.operation_at(70) == "broadcast of 70 int32, root 1");
  CHECK(state.operation_at(69).empty());
  CHECK(state.operation_at(101).empty());
  state.enter("split");
  CHECK(state.operation_at(101) == "split");
}
