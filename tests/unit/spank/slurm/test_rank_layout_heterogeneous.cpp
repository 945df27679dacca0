// SPDX-License-Identifier: Apache-2.0
#include "catch.hpp"
#include "slurm/rank_layout.hpp"

using namespace muster::spank;

TEST_CASE("Ranks follow the order of the components, not that of the nodes' names") {
  // Seen with Slurm 22.05: srun -w n1 -n1 a : -w n0 -n2 b.
  HeterogeneousStep step{{"n[0-1]", "2,1", "cyclic", "", 3}, {"n1", "n0"}, 0};
  CHECK(find_components(step).first_rank == 0);
  step.own_group = 1;
  const Components found = find_components(step);
  CHECK(found.first_rank == 1);
  const RankLayout layout = lay_out_components(found.shapes, {1, 2});
  CHECK(layout.hosts == std::vector<std::string>{"n1", "n0"});
  CHECK(layout.ranks == std::vector<std::vector<int>>{{0}, {1, 2}});
  CHECK(layout.node_of(0) == 0U);
}

TEST_CASE("Components and nodes of the job that are not in the step are skipped") {
  // srun --het-group=1,2, with the last component on one of its two nodes.
  const HeterogeneousStep step{{"a[3-4],b1", "1,2,4", "", "", 7}, {"c[0-9]", "a[3-4]", "b[0-1]"}, 2};
  const Components found = find_components(step);
  CHECK(found.first_rank == 3);
  REQUIRE(found.shapes.size() == 2);
  CHECK(lay_out_components(found.shapes, {3, 4, 5, 6}).ranks ==
        std::vector<std::vector<int>>{{0}, {1, 2}, {3, 4, 5, 6}});
}

TEST_CASE("When Slurm's facts are incomplete, the components are not known") {
  for (const HeterogeneousStep& step : {HeterogeneousStep{{"n[0-1]", "1(x2)", "", "", 2}, {}, 0},
                                        {{"n[0-1]", "1", "", "", 2}, {"n0", "n1"}, 0},
                                        {{"n[0-1]", "1(x2)", "", "", 2}, {"n0", "n1"}, 2},
                                        {{"", "", "", "", 2}, {"n0"}, 0},
                                        {{"n[0-1]", "1(x2)", "", "", 2}, {"n0", "x"}, 0}}) {
    CHECK(find_components(step).first_rank == -1);
    CHECK(find_components(step).shapes.empty());
  }
  CHECK_FALSE(lay_out_components({}, {0}).unknown.empty());
  // This node's ranks disagree with the layout, so the whole layout is unknown.
  const RankLayout wrong = lay_out_components({{"n0", "1", "", "", 1}, {"n1", "1", "", "", 1}}, {5});
  CHECK(wrong.ranks.empty());
  CHECK_FALSE(wrong.unknown.empty());
}

TEST_CASE("Components never have more ranks than the step") {
  // A group that names one node repeatedly, and more groups than Slurm accepts.
  std::string again = "n0";
  for (int i = 0; i < 60000; ++i) again += ",n0";
  CHECK(find_components({{"n[0-1]", "500000(x2)", "", "", 1000000}, {again, again}, 0}).shapes.empty());
  const std::vector<std::string> many(most_groups + 1, "n0");
  CHECK(find_components({{"n0", "1", "", "", 1}, many, 0}).shapes.empty());
}
