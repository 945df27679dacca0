// SPDX-License-Identifier: Apache-2.0
#include "catch.hpp"
#include "host_list/expand_host_list.hpp"

using muster::expand_host_list;
using Names = std::vector<std::string>;

TEST_CASE("Slurm's lists of nodes are expanded, and malformed ones rejected") {
  const auto expanded = [](const std::string& list) {
    return expand_host_list(list).value_or(Names{"malformed"});
  };
  CHECK(expanded("n[07-09,12],x1") == Names{"n07", "n08", "n09", "n12", "x1"});
  CHECK(expanded("r[0-1]n[0-3]") == Names{"r0n0", "r0n1", "r0n2", "r0n3", "r1n0", "r1n1", "r1n2", "r1n3"});
  CHECK(expanded("n[1-2][3-4]") == Names{"n13", "n14", "n23", "n24"});
  CHECK(expanded("n[9-11]") == Names{"n9", "n10", "n11"});
  CHECK(expanded("n[099-101]") == Names{"n099", "n100", "n101"});
  CHECK(expanded("n[01,1,3,2]-ib") == Names{"n01-ib", "n1-ib", "n3-ib", "n2-ib"});
  CHECK(expanded("a,b[1],c") == Names{"a", "b1", "c"});
  CHECK(expanded(",n1,,n2,") == Names{"n1", "n2"});
  CHECK(expanded("").empty());
  CHECK(expanded("n[0-65535]").size() == 65536);
  for (const char* wrong : {"n[1-2", "n[2-1]", "n[]", "n[a-b]", "n[1-]", "n[1--2]", "n[0-65536]",
                            "n[0-999][0-999]", "n1]", "n[1,[2]]", "n[99999999999999999999]"})
    CHECK(expanded(wrong) == Names{"malformed"});
  for (const char* wrong : {"n[0-99999999]", "n[", "n[1-", "n[1-999999999999]"})
    CHECK(expanded(wrong) == Names{"malformed"});
  std::string many_brackets;
  for (int i = 0; i < 50000; ++i) many_brackets += "[1]";
  CHECK(expanded(many_brackets) == Names{"malformed"});
  // A name has at most 255 letters, in a range too.
  CHECK(expanded(std::string(255, 'n')).front().size() == 255);
  CHECK(expanded(std::string(256, 'n').append("[0-65535]")) == Names{"malformed"});
  CHECK(expanded(std::string("n[0-9]").append(255, 'n')) == Names{"malformed"});
}
