// SPDX-License-Identifier: Apache-2.0
#include <set>

#include "catch.hpp"
#include "placement/environment/step_ports.hpp"

using namespace muster::placement;

TEST_CASE("The first eight steps of 125 consecutive jobs share no ports, nor do 1000 steps of one job") {
  const auto all_ports = [](std::uint32_t job, std::uint32_t step) {
    const StepPorts ports = derive_ports(job, step);
    std::vector<int> all = ports.workers;
    all.push_back(ports.master);
    all.push_back(ports.coordinator);
    return all;
  };
  for (const std::uint32_t start : {1U, 993U, 123456U, 0xffffff00U}) {
    std::set<int> seen;
    std::size_t total = 0;
    for (std::uint32_t job = start; job < start + 125; ++job)
      for (std::uint32_t step = 0; step < 8; ++step)
        for (const int port : all_ports(job, step)) {
          ++total;
          seen.insert(port);
        }
    CHECK(seen.size() == total);  // and so for any two of them
    CHECK(*seen.begin() >= 10000);
    CHECK(*seen.rbegin() <= 29999);
  }
  std::set<int> seen;
  for (std::uint32_t step = 0; step < 1000; ++step)
    for (const int port : all_ports(4711, step)) CHECK(seen.insert(port).second);
  CHECK(all_ports(0xffffffff, 0xfffffff0).size() == 18);
}

TEST_CASE("Ports reserved by Slurm replace the derived ones; without enough of them, the rest has no port") {
  const StepPorts derived = derive_ports(7, 0);
  CHECK(use_reserved(derived, {}).workers == derived.workers);
  CHECK(use_reserved(derived, {0, 70000}).master == derived.master);
  const StepPorts some = use_reserved(derived, {12000, 12001, 12001, 12002});
  CHECK(some.master == 12000);
  CHECK(some.coordinator == 12001);
  CHECK(some.workers == std::vector<int>{12002});
  const StepPorts one = use_reserved(derived, {12000});
  CHECK(one.coordinator == 0);
  CHECK(one.workers.empty());
}
