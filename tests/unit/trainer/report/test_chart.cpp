// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <sstream>
#include <vector>

#include "catch.hpp"
#include "count_elements.hpp"
#include "report/chart.hpp"

using namespace muster;

TEST_CASE("a chart is well-formed and within its frame", "[chart]") {
  Chart chart{"A <title> & \"more\"", "sub\ntitle", "step", "loss", {{"training", {}}}};
  std::vector<Point>& training = chart.series[0].points;
  SECTION("no points yet") {}
  SECTION("no series") { chart.series.clear(); }
  SECTION("one point") { training = {{1, 5.5}}; }
  SECTION("equal values") { training = {{1, 2.0}, {2, 2.0}}; }
  SECTION("zeros") { training = {{1, 0.0}, {2, 0.0}}; }
  SECTION("from zero, in per cent") {
    training = {{1, 0.01}, {2, 0.02}};
    chart.from_zero = true;
    chart.scale = 100;
    chart.height = 280;
  }
  SECTION("below zero") { training = {{1, -0.5}, {2, -0.25}}; }
  SECTION("many points") {
    for (int i = 1; i <= 5000; ++i) training.push_back({i, 5.0 / std::sqrt(i)});
    Series validation{"validation", {}, Series::Style::marked, 2};
    for (int i = 500; i <= 5000; i += 500) validation.points.push_back({i, 5.2 / std::sqrt(i)});
    chart.series.push_back(validation);
  }
  SECTION("points that are not finite") {
    const double nan = std::numeric_limits<double>::quiet_NaN(),
                 infinity = std::numeric_limits<double>::infinity();
    training = {{1, 5}, {2, nan}, {3, infinity}, {4, 4}};
  }
  const std::string svg = draw_chart_file(chart);
  CHECK(count_elements(svg) > 5);
  CHECK(svg.rfind("<svg xmlns=\"http://www.w3.org/2000/svg\"", 0) == 0);
  CHECK(svg.find("nan") == std::string::npos);
  CHECK(svg.find("inf") == std::string::npos);
  CHECK(svg.find("A &lt;title&gt; &amp; &quot;more&quot;") != std::string::npos);
  CHECK(svg.size() < 40000);
  for (std::size_t at = svg.find("points=\""); at != std::string::npos; at = svg.find("points=\"", at + 1)) {
    double x = 0, y = 0;
    REQUIRE(std::sscanf(svg.c_str() + at + 8, "%lf,%lf", &x, &y) == 2);
    CHECK((x >= 0 && x <= 880 && y >= 0 && y <= chart.height));
  }
}

TEST_CASE("a chart's axis begins at zero when requested, and larger values are higher", "[chart]") {
  Chart chart{"title", "", "step", "per cent", {{"exposed", {{0, 0.01}, {5, 0.02}, {10, 0.02}}}}};
  chart.series[0].style = Series::Style::dashed;
  chart.from_zero = true;
  chart.scale = 100;
  chart.height = 280;
  const std::string svg = draw_chart(chart);
  double x[3] = {}, y[3] = {}, zero = 0, low = 0;
  const std::size_t line = svg.find("dashed\" points=\"");
  REQUIRE(line != std::string::npos);
  REQUIRE(std::sscanf(svg.c_str() + line + 16, "%lf,%lf %lf,%lf %lf,%lf", x, y, x + 1, y + 1, x + 2, y + 2) ==
          6);
  CHECK(x[1] - x[0] == Approx(x[2] - x[1]).margin(0.2));
  CHECK(y[1] == y[2]);
  const auto mark_height = [&](const std::string& label, double& at) {
    const std::size_t text = svg.find("text-anchor=\"end\">" + label + "<");
    REQUIRE(text != std::string::npos);
    REQUIRE(std::sscanf(svg.c_str() + svg.rfind("y=\"", text), "y=\"%lf", &at) == 1);
    at -= 4;  // baseline of the text
  };
  mark_height("0", zero);
  mark_height("1", low);
  CHECK(y[0] == Approx(low).margin(0.2));
  CHECK(zero - y[1] == Approx(2 * (zero - y[0])).margin(0.4));
  CHECK(zero > y[0]);
}

TEST_CASE("a chart of many points draws means", "[chart]") {
  Chart chart{"title", "", "step", "loss", {{"training", {}}}};
  for (int i = 0; i < 4000; ++i) chart.series[0].points.push_back({i, i % 2 == 0 ? 1.0 : 3.0});
  chart.series.push_back({"mean", {{0, 2.0}, {4000, 2.0}}, Series::Style::dashed, 2});
  chart.series.push_back({"frame", {{0, 1.0}, {4000, 3.0}}, Series::Style::dashed, 2});
  const std::string svg = draw_chart(chart);
  double x = 0, mean = 0, training = 0;
  REQUIRE(std::sscanf(svg.c_str() + svg.find("points=\"") + 8, "%lf,%lf", &x, &training) == 2);
  REQUIRE(std::sscanf(svg.c_str() + svg.find("dashed\" points=\"") + 16, "%lf,%lf", &x, &mean) == 2);
  CHECK(training == Approx(mean).margin(0.2));
}

TEST_CASE("a run of one step, and skipped steps, are visible in a chart", "[chart]") {
  Chart chart{"one", "", "step", "loss", {{"training", {{1, 5.5}}}}};
  const std::string one = draw_chart(chart);
  CHECK(one.find("<circle class=\"mark1\"") != std::string::npos);
  chart.series[0].points = {{1, 5.5}, {2, 5.0}};
  CHECK(draw_chart(chart).find("<circle") == std::string::npos);
  chart.series.push_back({"skipped updates", {{3, 0}, {4, 0}}, Series::Style::events, 3});
  const std::string with_skipped = draw_chart(chart);
  const auto stroke =
      with_skipped.find("<line class=\"line3\" x1=\"852\"");  // the last step, at the right end
  CHECK(stroke != std::string::npos);
  CHECK(with_skipped.find(">5.2<") != std::string::npos);
  CHECK(with_skipped.find(">1<") != std::string::npos);
  CHECK(with_skipped.find(">0.5<") == std::string::npos);  // the events have no height
}

TEST_CASE("large axis numbers are abbreviated, and the axis ends at the last step", "[chart]") {
  Chart chart{"speed", "", "step", "tokens/s", {{"tokens/s", {}}}};
  chart.from_zero = true;
  for (int i = 1; i <= 1000; ++i) chart.series[0].points.push_back({i, 600'000.0});
  const std::string svg = draw_chart(chart);
  CHECK(svg.find(">600k<") != std::string::npos);
  CHECK(svg.find(">600000<") == std::string::npos);
  CHECK(svg.find(">1000<") != std::string::npos);
}

TEST_CASE("smoothing turns one high point among many into a peak and not a step", "[chart]") {
  Chart chart{"spike", "", "step", "loss", {{"training", {}}}};
  for (int i = 1; i <= 400; ++i) chart.series[0].points.push_back({i, i == 200 ? 9.0 : 1.0});
  const std::string svg = draw_chart(chart);
  const std::size_t strong = svg.find("<polyline class=\"line1\" points=\"");
  REQUIRE(strong != std::string::npos);
  std::istringstream points(svg.substr(svg.find("points=\"", strong) + 8));
  std::vector<double> heights;
  for (std::string point; points >> point && point.find(',') != std::string::npos && point[0] != '"';)
    heights.push_back(std::stod(point.substr(point.find(',') + 1)));
  REQUIRE(heights.size() == 400);
  const auto highest = std::min_element(heights.begin(), heights.end());  // y points down
  CHECK(highest - heights.begin() == 199);
  CHECK(*highest < *(highest + 1));
  CHECK(*(highest + 1) < *(highest + 2));
}

TEST_CASE("the checker of this test finds malformed pictures", "[plot]") {
  CHECK(count_elements("<a><b/></a>") == 2);
  for (const char* bad : {"<a><b></a>", "<a x=\"1></a>", "<a>&</a>", "<a"}) CHECK(count_elements(bad) == -1);
}
