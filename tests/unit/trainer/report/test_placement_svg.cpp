// SPDX-License-Identifier: Apache-2.0
#include "catch.hpp"
#include "count_elements.hpp"
#include "report/placement_svg.hpp"

using namespace muster;

namespace {

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t found = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
  return found;
}

RankInfo rank_on(int rank, const std::string& host, const std::string& cpus, int host_cpus) {
  RankInfo facts;
  facts.rank = rank;
  facts.host = host;
  facts.cpus = cpus;
  facts.host_cpus = host_cpus;
  facts.placed = true;
  return facts;
}

}  // namespace

TEST_CASE("the placement picture shows each rank on its host with its own CPUs", "[placement picture]") {
  std::vector<RankInfo> ranks{rank_on(0, "n0", "0-1", 4), rank_on(1, "n0", "2-3", 4),
                              rank_on(2, "n1", "0-3", 4)};
  ranks[1].gpus = "0000:01:00.0";
  ranks[1].nics = "mlx5_0:1 <&>";
  const std::string svg = draw_placement(ranks);
  CHECK(count_elements(svg) > 20);
  CHECK(count(svg, "class=\"host\"") == 2);
  CHECK(count(svg, "<rect class=\"rank0\"") == 1 + 2 + 1 + 4);  // a mark and the CPUs, on two hosts
  CHECK(count(svg, "<rect class=\"rank1\"") == 1 + 2);
  CHECK(count(svg, "<rect class=\"free\"") == 4);
  CHECK(svg.find("GPU 0000:01:00.0") != std::string::npos);
  CHECK(svg.find("mlx5_0:1 &lt;&amp;&gt;") != std::string::npos);
}

TEST_CASE("a picture of a large job stays small", "[placement picture]") {
  std::vector<RankInfo> ranks;
  for (int rank = 0; rank < 4096; ++rank)
    ranks.push_back(rank_on(rank, "n" + std::to_string(rank / 8),
                            std::to_string(rank % 8 * 16) + "-" + std::to_string(rank % 8 * 16 + 15), 256));
  const std::string svg = draw_placement(ranks);
  CHECK(count_elements(svg) > 0);
  CHECK(svg.size() < 100'000);
  CHECK(svg.find("and 504 more hosts") != std::string::npos);
}

TEST_CASE("a rank without any information is drawn too", "[placement picture]") {
  CHECK(count_elements(draw_placement({RankInfo{}})) > 3);
  CHECK(count_elements(draw_placement({})) > 0);
}
