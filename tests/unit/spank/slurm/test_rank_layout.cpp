// SPDX-License-Identifier: Apache-2.0
#include "catch.hpp"
#include "slurm/rank_layout.hpp"

using namespace muster::spank;
using Names = std::vector<std::string>;
using Layout = std::vector<std::vector<int>>;

TEST_CASE("Slurm's counts of tasks are expanded, and malformed ones rejected") {
  using Counts = std::vector<int>;
  CHECK(expand_counts("2(x3),1") == Counts{2, 2, 2, 1});
  CHECK(expand_counts("4,3,1") == Counts{4, 3, 1});
  for (const char* wrong : {"2(x", "2(x0)", "(x2)", "-1", "2(x99999999)", "2,,1", "a"})
    CHECK_FALSE(expand_counts(wrong));
  CHECK(expand_counts("1048576"));
  for (const char* too_many : {"1048577", "524288(x2),1", "2147483647(x65536)"})
    CHECK_FALSE(expand_counts(too_many));
}

namespace {
StepShape shape(const std::string& counts, int world, const std::string& distribution,
                const std::string& plane = "") {
  return {"n[0-2]", counts, distribution, plane, world, ""};
}
StepShape with_explicit_layout(const std::string& nodes) {
  return {"n[0-2]", "2,1(x2)", "arbitrary", "", 4, nodes};
}
}  // namespace

// The layouts are those of Slurm 22.05 for srun -N3 -n8 on nodes of four CPUs.
TEST_CASE("The nodes of ranks follow from the counts and the distribution") {
  const Layout block = {{0, 1, 2, 3}, {4, 5, 6}, {7}};
  CHECK(lay_out(shape("4,3,1", 8, ""), {4, 5, 6}).ranks == block);
  CHECK(lay_out(shape("4,3,1", 8, "block,pack"), {7}).ranks == block);
  CHECK(lay_out(shape("4,3,1", 8, "block:cyclic"), {7}).ranks == block);
  CHECK(lay_out(shape("4,3,1", 8, "cyclic"), {1, 4, 6}).ranks == Layout{{0, 3, 5, 7}, {1, 4, 6}, {2}});
  CHECK(lay_out(shape("4,3,1", 8, "plane", "2"), {0, 1, 5, 6}).ranks == Layout{{0, 1, 5, 6}, {2, 3, 7}, {4}});
  const RankLayout layout = lay_out(shape("4,3,1", 8, "cyclic:block"), {2});
  CHECK(layout.node_of(6) == 1);
  CHECK(layout.node_of(0) == 0);
  CHECK_FALSE(layout.node_of(8));
  CHECK(layout.unknown.empty());
}

TEST_CASE("For --distribution=arbitrary the layout comes from srun") {
  CHECK(lay_out(with_explicit_layout("2,0,0,1"), {1, 2}).ranks == Layout{{1, 2}, {3}, {0}});
  CHECK(extract_layout("7.1:2,0,0,1", 7, 1) == "2,0,0,1");
  CHECK(extract_layout("7.1:2,0,0,1", 7, 2).empty());
  CHECK(extract_layout("", 7, 2).empty());
  // A layout that an outer step's srun set is ignored under another distribution.
  StepShape block = with_explicit_layout("2,0,0,1");
  block.distribution = "block";
  CHECK(lay_out(block, {0, 1}).ranks == Layout{{0, 1}, {2}, {3}});
}

TEST_CASE("When a layout is uncertain, only the nodes are returned") {
  const auto why = [](const StepShape& step, const std::vector<int>& own) {
    const RankLayout layout = lay_out(step, own);
    CHECK(layout.ranks.empty());
    CHECK_FALSE(layout.node_of(0));
    return layout.unknown;
  };
  CHECK(why(shape("2,1(x2)", 4, "arbitrary"), {0}) ==
        "with --distribution=arbitrary Slurm does not report which rank runs where");
  CHECK_FALSE(why(with_explicit_layout("1,0,0"), {1, 2}).empty());
  CHECK_FALSE(why(with_explicit_layout("2,0,1,1"), {1}).empty());
  CHECK_FALSE(why(with_explicit_layout("2,0,0,3"), {1, 2}).empty());
  CHECK_FALSE(why(with_explicit_layout("2,0,0,x"), {1, 2}).empty());
  CHECK_FALSE(why(with_explicit_layout("2,0,0,1"), {0, 1}).empty());
  CHECK(lay_out(shape("2,1(x2)", 4, "arbitrary"), {0}).hosts == Names{"n0", "n1", "n2"});
  CHECK_FALSE(why(shape("4,3,1", 8, "plane"), {0, 1, 5, 6}).empty());
  CHECK_FALSE(why(shape("4,3,1", 9, "block"), {7}).empty());
  CHECK_FALSE(why(shape("4,4", 8, "block"), {7}).empty());
  CHECK_FALSE(why(shape("4,3,x", 8, "block"), {7}).empty());
  CHECK_FALSE(why({"n[0-", "4,3,1", "", "", 8, ""}, {7}).empty());
  // The environment has cyclic, the ranks block: srun -m '*' in a job that was submitted with -m cyclic.
  CHECK_FALSE(why(shape("2(x3)", 6, "cyclic"), {2, 3}).empty());
  // n0 has rank 0 in both layouts and cannot notice a difference, so no node trusts the distribution.
  CHECK_FALSE(why(shape("1,2,2", 5, "cyclic"), {1, 3}).empty());
  CHECK_FALSE(why(shape("1,2,2", 5, "cyclic"), {0}).empty());
}

// One node has nearly all ranks: a visit to all nodes in each turn would take a minute.
TEST_CASE("The time of a layout depends on its ranks, however they are spread") {
  StepShape uneven{"n[0-65535]", "983041,1(x65535)", "cyclic", "", 1 << 20, ""};
  const RankLayout layout = lay_out(uneven, {1});
  REQUIRE(layout.ranks.size() == 65536);
  CHECK(layout.ranks[0].back() == (1 << 20) - 1);
}

TEST_CASE("A step with more ranks than the limit gets no layout") {
  const RankLayout layout = lay_out({"n[0-1]", "2147483647(x2)", "", "", 2147483647, ""}, {0});
  CHECK(layout.ranks.empty());
  CHECK(layout.unknown == "2147483647 ranks are more than the 1048576 that Muster lays out");
  const StepShape component{"n0", "1048576", "", "", 1 << 20, ""};
  CHECK(lay_out_components({component, component}, {0}).ranks.empty());
  CHECK(lay_out_components({component}, {0}).unknown ==
        "this node's ranks are not those of its heterogeneous step's distribution");
}

TEST_CASE("When a layout from srun does not fit into a variable, it is left out") {
  CHECK(format_layout(7, 1, {2, 0, 0, 1}) == "7.1:2,0,0,1");
  CHECK(extract_layout(format_layout(7, 1, {2, 0}), 7, 1) == "2,0");
  CHECK_FALSE(format_layout(7, 1, std::vector<std::uint32_t>(65000, 1)).empty());
  CHECK(format_layout(7, 1, std::vector<std::uint32_t>(66000, 1)).empty());
}

TEST_CASE("A node's name is the one at its index of the step's nodes") {
  CHECK(find_node_name("n[0-1],gpu7", 1) == "n1");
  CHECK(find_node_name("n[0-1],gpu7", 2) == "gpu7");
  CHECK_FALSE(find_node_name("n[0-1],gpu7", 3));
  CHECK_FALSE(find_node_name("", 0));
  CHECK_FALSE(find_node_name("n[0-", 0));
}
