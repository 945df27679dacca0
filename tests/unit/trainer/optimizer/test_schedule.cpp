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
