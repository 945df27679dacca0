// SPDX-License-Identifier: Apache-2.0
#include <cstdlib>

#include "catch.hpp"
#include "machine/threads.hpp"

using namespace muster;

namespace {

std::vector<Hello> ranks(const std::vector<std::pair<std::string, std::string>>& host_and_cpus) {
  std::vector<Hello> roster;
  for (const auto& [host, cpus] : host_and_cpus) {
    Hello hello;
    hello.rank = static_cast<int>(roster.size());
    hello.host = hello.boot_id = host;
    hello.cpus = cpus;
    roster.push_back(hello);
  }
  return roster;
}

}  // namespace

TEST_CASE("threads are a fair share of the CPUs", "[threads]") {
  CHECK(fair_threads(ranks({{"a", "0-7"}}), 0) == 8);
  CHECK(fair_threads(ranks({{"a", "0-7"}, {"a", "0-7"}}), 1) == 4);
  CHECK(fair_threads(ranks({{"a", "0-3"}, {"a", "4-7"}}), 0) == 4);
  CHECK(fair_threads(ranks({{"a", "0-7"}, {"b", "0-7"}}), 0) == 8);
  CHECK(fair_threads(ranks({{"a", "0"}, {"a", "0"}, {"a", "0"}}), 2) == 1);
  CHECK(fair_threads(ranks({{"a", "0-2"}, {"a", "0-2"}, {"a", "0-2"}}), 0) == 1);
  CHECK(fair_threads(ranks({{"a", ""}}), 0) == 1);
  CHECK(fair_threads(ranks({{"a", "0-99999999999"}}), 0) == 1);
}

TEST_CASE("--threads overrides OMP_NUM_THREADS, which overrides the fair share", "[threads]") {
  const auto roster = ranks({{"a", "0-7"}});
  ::setenv("OMP_NUM_THREADS", "3,1", 1);
  CHECK(choose_threads(0, roster, 0) == 3);
  CHECK(choose_threads(5, roster, 0) == 5);
  ::setenv("OMP_NUM_THREADS", "many", 1);
  CHECK(choose_threads(0, roster, 0) == 8);
  ::unsetenv("OMP_NUM_THREADS");
  CHECK(choose_threads(0, roster, 0) == 8);
}

TEST_CASE("data threads are the CPUs that do not compute, and at least one", "[threads]") {
  const auto roster = ranks({{"a", "0-7"}, {"a", "0-7"}});
  CHECK(choose_data_threads(0, 1, roster, 0) == 3);
  CHECK(choose_data_threads(0, 4, roster, 0) == 1);
  CHECK(choose_data_threads(6, 4, roster, 0) == 6);
}
