// SPDX-License-Identifier: Apache-2.0
// For tests/bench/links: reads lines "batch Gbit/s exposed predicted" and draws both shares over the rate.
#include <algorithm>
#include <iostream>
#include <map>

#include "report/chart.hpp"

int main() {
  using muster::Series;
  struct Lines {
    Series measured, predicted;
  };
  std::map<int, Lines> batches;
  int batch = 0, rate = 0;
  double exposed = 0, predicted = 0;
  while (std::cin >> batch >> rate >> exposed >> predicted) {
    batches[batch].measured.points.push_back({rate, exposed});
    batches[batch].predicted.points.push_back({rate, predicted});
  }
  muster::Chart chart{"Exposed communication",
                      "two ranks on two nodes, a core each; 51 MB of gradients a step",
                      "Gbit/s between the nodes",
                      "per cent of a step",
                      {},
                      true,
                      480,
                      100};
  int colour = 1;
  const auto by_rate = [](const muster::Point& a, const muster::Point& b) { return a.x < b.x; };
  for (auto& [size, lines] : batches) {
    std::sort(lines.measured.points.begin(), lines.measured.points.end(), by_rate);
    std::sort(lines.predicted.points.begin(), lines.predicted.points.end(), by_rate);
    lines.measured.name = "batch " + std::to_string(size) + ", measured";
    lines.predicted.name = "predicted";
    lines.measured.style = Series::Style::marked;
    lines.predicted.style = Series::Style::dashed;
    lines.measured.colour = lines.predicted.colour = colour;
    colour = colour == 1 ? 2 : 1;
    chart.series.push_back(lines.measured);
    chart.series.push_back(lines.predicted);
  }
  std::cout << muster::draw_chart_file(chart);
  return std::cin.eof() ? 0 : 1;
}
