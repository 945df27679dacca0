// SPDX-License-Identifier: Apache-2.0
#include "catch.hpp"
#include "host_list/fold_host_list.hpp"

using namespace muster;

TEST_CASE("Lists of hosts and numbers have Slurm's notation") {
  const auto [hosts, list] = GENERATE(table<std::vector<std::string>, std::string>({
      {std::vector<std::string>{}, ""},
      {{"n1"}, "n1"},
      {{"n1", "n0", "n1"}, "n[0-1]"},
      {{"n10", "n9", "n11", "n3"}, "n[3,9-11]"},
      {{"n08", "n09", "n10", "n11"}, "n[08-11]"},
      {{"n9", "n09"}, "n9,n09"},
      {{"n0.site", "n1.site", "n2"}, "n2,n[0-1].site"},
      {{"head", "head1"}, "head,head1"},
      {{"r1-n2", "r1-n3", "r2-n3"}, "r1-n[2-3],r2-n3"},
      {{"n123456789012"}, "n123456789012"},
  }));
  CHECK(fold_host_list(hosts) == list);
  CHECK(fold_numbers({3, 0, 1, 2, 8, 1}) == "0-3,8");
}
