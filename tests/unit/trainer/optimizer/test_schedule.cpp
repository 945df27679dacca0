// SPDX-License-Identifier: Apache-2.0
#include "catch.hpp"
#include "optimizer/schedule.hpp"

using muster::Schedule;

TEST_CASE("learning rate: linear rise, half a cosine down", "[schedule]") {
  const Schedule schedule{1.0, 0.1, 10, 110};
  CHECK(schedule.at(0) == Approx(0.1));
  CHECK(schedule.at(9) == Approx(1.0));
  CHECK(schedule.at(10) == Approx(1.0));
  CHECK(schedule.at(60) == Approx(0.55));
  CHECK(schedule.at(110) == Approx(0.1));
  CHECK(schedule.at(100000) == Approx(0.1));
  for (int step = 11; step <= 110; ++step) CHECK(schedule.at(step) < schedule.at(step - 1));
}

TEST_CASE("learning rate without warm-up and with nothing but warm-up", "[schedule]") {
  CHECK(Schedule{1.0, 0.1, 0, 10}.at(0) == Approx(1.0));
  const Schedule short_run{1.0, 0.0, 100, 10};
  for (int step = 0; step < 10; ++step) CHECK(short_run.at(step) == Approx((step + 1) / 100.0));
}

TEST_CASE("learning rate: other shapes after the warm-up", "[schedule]") {
  using Shape = Schedule::Shape;
  const auto shaped = [](Shape shape) {
    Schedule schedule{1.0, 0.1, 10, 110, shape};
    schedule.milestones = {50, 80};
    schedule.factor = 0.5;
    schedule.decay_steps = 20;
    return schedule;
  };
  const auto all = {Shape::linear, Shape::constant, Shape::step, Shape::stable_decay};
  for (const Shape shape : all) {
    CHECK(shaped(shape).at(4) == Approx(0.5));
    CHECK(shaped(shape).at(10) == 1.0);
  }
  CHECK(shaped(Shape::linear).at(60) == Approx(0.55));
  CHECK(shaped(Shape::linear).at(110) == Approx(0.1));
  CHECK(shaped(Shape::linear).at(1000) == Approx(0.1));
  CHECK(shaped(Shape::constant).at(1000) == 1.0);
  CHECK(shaped(Shape::step).at(49) == 1.0);
  CHECK(shaped(Shape::step).at(50) == 0.5);
  CHECK(shaped(Shape::step).at(79) == 0.5);
  CHECK(shaped(Shape::step).at(80) == 0.25);
  CHECK(shaped(Shape::stable_decay).at(90) == 1.0);
  CHECK(shaped(Shape::stable_decay).at(100) == Approx(0.55));
  CHECK(shaped(Shape::stable_decay).at(110) == Approx(0.1));
  // A fall that is longer than what the warm-up leaves begins after it.
  const Schedule long_fall{1.0, 0.0, 10, 20, Shape::stable_decay, {}, 0, 15};
  CHECK(long_fall.at(10) == 1.0);
  CHECK(long_fall.at(15) == Approx(0.5));
}
