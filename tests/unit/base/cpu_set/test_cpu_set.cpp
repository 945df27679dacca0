// SPDX-License-Identifier: Apache-2.0
#include <random>
#include <set>
#include <stdexcept>

#include "catch.hpp"
#include "cpu_set/cpu_set.hpp"

using muster::CpuSet;

TEST_CASE("CPU lists are read and written in the kernel's format") {
  CHECK(CpuSet::parse_list("0-3,8")->to_vector() == std::vector<int>{0, 1, 2, 3, 8});
  CHECK(CpuSet::parse_list("5") == CpuSet{5});
  CHECK(CpuSet::parse_list(" 8 , 0-3\n")->to_list() == "0-3,8");
  CHECK(CpuSet::parse_list("0-8:4")->to_list() == "0,4,8");
  CHECK(CpuSet::parse_list("") == CpuSet());
  CHECK(CpuSet::parse_list("63-64")->to_list() == "63-64");
  CHECK(CpuSet::parse_list("7,0-65535,3")->size() == CpuSet::limit);
  CHECK(CpuSet().to_list().empty());
}

TEST_CASE("CPUs at equal steps are written with a stride, and read back") {
  const auto [list, shorter] = GENERATE(table<std::string, std::string>({
      {"", ""},
      {"7", "7"},
      {"0-3,8", "0-3,8"},
      {"0,2", "0,2"},
      {"0,2,4", "0-4:2"},
      {"0-1,4,8,12,16,18-20", "0-1,4-16:4,18-20"},
      {"0,4,8,12-13", "0,4,8,12-13"},
      {"1,3,5,7,9,100,110,120", "1-9:2,100-120:10"},
  }));
  const auto set = CpuSet::parse_list(list).value();
  CHECK(set.to_list() == list);
  CHECK(set.to_short_list() == shorter);
  CHECK(CpuSet::parse_list(shorter) == set);
}

TEST_CASE("CPU masks are read with the highest group first") {
  CHECK(CpuSet::parse_mask("00000000,000000f0")->to_list() == "4-7");
  CHECK(CpuSet::parse_mask("1,00000000")->to_list() == "32");
  CHECK(CpuSet::parse_mask("0xff")->to_list() == "0-7");
  CHECK(CpuSet::parse_mask("0") == CpuSet());
}

TEST_CASE("Invalid CPU lists and masks are refused") {
  const auto bad = GENERATE("x", "1-", "-1", "3-1", "1,,2", "1,", ",1", "0-99999999999", "0-3:0", "0-3:-1",
                            "1 2", "65536", "0-3:99999999999999999999", "--", "0x3");
  CHECK_FALSE(CpuSet::parse_list(bad));
  for (const char* mask : {"", "g", "123456789", "1,,2", "-1", "1 2"}) CHECK_FALSE(CpuSet::parse_mask(mask));
  CHECK_THROWS_AS(CpuSet{-1}, std::out_of_range);
  CHECK_THROWS_AS(CpuSet{CpuSet::limit}, std::out_of_range);
}

TEST_CASE("Set algebra agrees with std::set") {
  std::mt19937 random(7);
  std::uniform_int_distribution<int> cpu(0, 200);
  for (int round = 0; round < 200; ++round) {
    CpuSet a, b;
    std::set<int> x, y;
    for (int i = 0; i < round % 40; ++i) {
      const int p = cpu(random), q = cpu(random);
      a.add(p), x.insert(p);
      b.add(q), y.insert(q);
    }
    std::vector<int> united, common, rest;
    std::set_union(x.begin(), x.end(), y.begin(), y.end(), std::back_inserter(united));
    std::set_intersection(x.begin(), x.end(), y.begin(), y.end(), std::back_inserter(common));
    std::set_difference(x.begin(), x.end(), y.begin(), y.end(), std::back_inserter(rest));
    CHECK((a | b).to_vector() == united);
    CHECK((a & b).to_vector() == common);
    CHECK((a - b).to_vector() == rest);
    CHECK(a.intersects(b) == !common.empty());
    CHECK(a.is_subset_of(b) == rest.empty());
    CHECK(a.size() == static_cast<int>(x.size()));
    CHECK(CpuSet::parse_list(a.to_list()) == a);
    CHECK(((a - b) | (a & b)) == a);
  }
}

TEST_CASE("Equal sets compare equal, whatever operations made them") {
  CpuSet set{3, 900};
  set.remove(900);
  set.remove(5);
  CHECK(set == CpuSet{3});
  CHECK(set.first() == 3);
  CHECK(set.next(3) == -1);
  CHECK(CpuSet().first() == -1);
  CHECK_FALSE(set.contains(-1));
}
