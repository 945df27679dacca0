// SPDX-License-Identifier: Apache-2.0
// The sequences and figures are those of the papers that schedule.hpp names, computed by hand and by a
// simulator that knows nothing of this one.
#include <algorithm>
#include <string>
#include <vector>

#include "catch.hpp"
#include "strategies/pipeline/schedule_replay.hpp"

using namespace muster::pipeline;

namespace {

/// Without the stage's number, for schedules with one stage on each rank.
std::string sequence(const ScheduleShape& shape, int rank) {
  std::string text = to_string(make_operations(shape, rank));
  const std::string stage = std::to_string(rank);
  std::string out;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find(' ', begin), text.size());
    out += (out.empty() ? "" : " ") + text.substr(begin + stage.size(), end - begin - stage.size());
    begin = end + 1;
  }
  return out;
}

double idle_share(const ScheduleShape& shape, const OperationTimes& times = {}) {
  return replay_schedule(make_schedule(shape), {{times}}).idle_share;
}

std::vector<ScheduleShape> all_shapes() {
  std::vector<ScheduleShape> shapes;
  for (const int ranks : {1, 2, 4, 8}) {
    for (const int micro_batches : {8, 16}) {
      for (const ScheduleKind kind :
           {ScheduleKind::gpipe, ScheduleKind::one_f_one_b, ScheduleKind::zero_bubble_h1})
        shapes.push_back({kind, ranks, micro_batches});
      for (const int stages : {1, 2, 3})
        shapes.push_back({ScheduleKind::interleaved_1f1b, ranks, micro_batches, stages});
    }
  }
  return shapes;
}

}  // namespace

TEST_CASE("schedules have the sequences of the literature", "[pipeline]") {
  CHECK(sequence({ScheduleKind::gpipe, 4, 3}, 2) == "F0 F1 F2 B0 B1 B2");
  CHECK(sequence({ScheduleKind::one_f_one_b, 4, 6}, 0) == "F0 F1 F2 F3 B0 F4 B1 F5 B2 B3 B4 B5");
  CHECK(sequence({ScheduleKind::one_f_one_b, 4, 6}, 3) == "F0 B0 F1 B1 F2 B2 F3 B3 F4 B4 F5 B5");
  CHECK(to_string(make_operations({ScheduleKind::interleaved_1f1b, 2, 4, 2}, 0)) ==
        "0F0 0F1 2F0 2F1 0F2 2B0 0F3 2B1 2F2 0B0 2F3 0B1 2B2 2B3 0B2 0B3");
  CHECK(sequence({ScheduleKind::zero_bubble_h1, 4, 6}, 0) ==
        "F0 F1 F2 F3 I0 W0 F4 I1 W1 F5 I2 W2 I3 W3 I4 W4 I5 W5");
  CHECK(sequence({ScheduleKind::zero_bubble_h1, 4, 6}, 3) ==
        "F0 I0 F1 I1 F2 I2 F3 I3 W0 F4 I4 W1 F5 I5 W2 W3 W4 W5");
}

TEST_CASE("a schedule's name is read back", "[pipeline]") {
  for (const char* name : {"gpipe", "1f1b", "interleaved-1f1b", "zb-h1"})
    CHECK(to_string(*parse_schedule_kind(name)) == name);
  CHECK(!parse_schedule_kind("1F1B"));
}

TEST_CASE("the idle share of equal stages is that of the formulas", "[pipeline]") {
  CHECK(idle_share({ScheduleKind::gpipe, 4, 8}) == Approx(.2727).margin(5e-5));
  CHECK(idle_share({ScheduleKind::one_f_one_b, 4, 8}) == Approx(.2727).margin(5e-5));
  CHECK(idle_share({ScheduleKind::interleaved_1f1b, 4, 8, 2}) == Approx(.1579).margin(5e-5));
  CHECK(idle_share({ScheduleKind::interleaved_1f1b, 4, 8, 4}) == Approx(.0857).margin(5e-5));
  const ScheduleShape zero_bubble{ScheduleKind::zero_bubble_h1, 4, 8};
  CHECK(idle_share(zero_bubble) == Approx(.1111).margin(5e-5));
  CHECK(idle_share(zero_bubble, {2, 3, 1}) == Approx(.2).margin(5e-5));
  CHECK(idle_share(zero_bubble, {1, 1, .5}) == Approx(.1837).margin(5e-5));
  CHECK(idle_share(zero_bubble, {1, 1.5, 1}) == Approx(.1385).margin(5e-5));
  CHECK(idle_share({ScheduleKind::gpipe, 8, 16}) == Approx(.3043).margin(5e-5));
  CHECK(idle_share({ScheduleKind::zero_bubble_h1, 8, 16}) == Approx(.1273).margin(5e-5));
  for (const ScheduleShape& shape : all_shapes())
    CHECK(idle_share(shape) == Approx(idle_share_formula(shape)).margin(1e-9));
}

TEST_CASE("unequal stages and slow links cost what the simulations say", "[pipeline]") {
  const std::vector<OperationTimes> slow_first{{1.5, 1.5, 1.5}, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}};
  const auto makespan = [](const ScheduleShape& shape, const ReplaySettings& settings) {
    return replay_schedule(make_schedule(shape), settings).makespan;
  };
  CHECK(makespan({ScheduleKind::gpipe, 4, 8}, {slow_first}) == Approx(45));
  CHECK(makespan({ScheduleKind::one_f_one_b, 4, 8}, {slow_first}) == Approx(40.5));
  for (const int p : {2, 4, 8}) {
    const int m = 16;
    const double c = 0.25;
    const auto added = [&](ScheduleKind kind) {
      return makespan({kind, p, m}, {{{}}, c}) - makespan({kind, p, m}, {});
    };
    CHECK(added(ScheduleKind::gpipe) == Approx(2 * (p - 1) * c));
    CHECK(added(ScheduleKind::one_f_one_b) == Approx(2.0 * m * (p - 1) * c / p + (2 * p - 4) * c));
    CHECK(added(ScheduleKind::zero_bubble_h1) == Approx(4 * (p - 1) * c));
  }
}

TEST_CASE("a stage keeps as many micro-batches as its schedule says", "[pipeline]") {
  const int p = 4, m = 8;
  for (int rank = 0; rank < p; ++rank) {
    CHECK(most_in_flight(make_operations({ScheduleKind::gpipe, p, m}, rank), rank) == m);
    CHECK(most_in_flight(make_operations({ScheduleKind::one_f_one_b, p, m}, rank), rank) == p - rank);
    const OperationList split = make_operations({ScheduleKind::zero_bubble_h1, p, m}, rank);
    CHECK(most_in_flight(split, rank) == p);
    CHECK(most_weights_put_off(split, rank) == rank + 1);
    CHECK(most_weights_put_off(make_operations({ScheduleKind::one_f_one_b, p, m}, rank), rank) == 0);
  }
  CHECK(most_in_flight(make_operations({ScheduleKind::one_f_one_b, 4, 2}, 0), 0) == 2);
  for (int rank = 0; rank < p; ++rank) {
    int now = 0, most = 0;
    for (const Operation& operation : make_operations({ScheduleKind::interleaved_1f1b, p, 2 * m, 2}, rank))
      most = std::max(most, now += operation.kind == OperationKind::forward ? 1 : -1);
    CHECK(most == 2 * (p - 1 - rank) + p + 1);
  }
}

TEST_CASE("an edge collects a limited number of messages", "[pipeline]") {
  for (const int p : {2, 4}) {
    const int m = 2 * p;
    CHECK(most_queued_messages(make_schedule({ScheduleKind::gpipe, p, m})) == m);
    CHECK(most_queued_messages(make_schedule({ScheduleKind::one_f_one_b, p, m})) == p);
    CHECK(most_queued_messages(make_schedule({ScheduleKind::zero_bubble_h1, p, m})) == p);
    CHECK(most_queued_messages(make_schedule({ScheduleKind::interleaved_1f1b, p, m, 2})) == 2 * p - 1);
  }
}

TEST_CASE("no schedule waits for ever, also with buffers for few messages", "[pipeline]") {
  for (const ScheduleShape& shape : all_shapes()) {
    const auto lists = make_schedule(shape);
    CHECK(replay_schedule(lists).deadlock == "");
    CHECK(replay_schedule(lists, {{{}}, 0.5, 1}).deadlock == "");
    for (int stage = 0; stage < shape.stages(); ++stage)
      CHECK(most_in_flight(lists[static_cast<std::size_t>(shape.rank_of(stage))], stage) <=
            shape.micro_batches);
  }
  std::vector<OperationList> lists = make_schedule({ScheduleKind::one_f_one_b, 2, 2});
  std::swap(lists[1][0], lists[1][1]);
  CHECK(replay_schedule(lists).deadlock ==
        "the schedule would wait for ever: rank 0 before 0B0, rank 1 before 1B0");
}

TEST_CASE("a shape that a schedule cannot have is refused", "[pipeline]") {
  CHECK(schedule_problem({ScheduleKind::gpipe, 4, 1}) == "");
  CHECK(schedule_problem({ScheduleKind::one_f_one_b, 4, 4}) == "");
  CHECK(schedule_problem({ScheduleKind::one_f_one_b, 4, 3}) ==
        "1f1b needs at least as many micro-batches as stages, and 3 is fewer than 4");
  CHECK(schedule_problem({ScheduleKind::interleaved_1f1b, 4, 6, 2}) ==
        "interleaved-1f1b needs a multiple of 4 micro-batches, the ranks of a pipeline, and 6 is none");
}
