// SPDX-License-Identifier: Apache-2.0
#include "plot.hpp"

#include <cmath>
#include <limits>

#include "catch.hpp"

using namespace muster;

namespace {

/// Checks that tags nest, attributes are quoted and no bare '<' or '&' stands in text. Returns the number of
/// elements, -1 when malformed.
int count_elements(const std::string& xml) {
  std::vector<std::string> open;
  int elements = 0;
  for (std::size_t at = 0; at < xml.size();) {
    if (xml[at] == '&') {
      const std::size_t end = xml.find(';', at);
      if (end == std::string::npos || end - at > 6) return -1;
      at = end + 1;
    } else if (xml[at] != '<') {
      ++at;
    } else {
      const std::size_t end = xml.find('>', at);
      if (end == std::string::npos) return -1;
      const std::string tag = xml.substr(at + 1, end - at - 1);
      if (tag.find('<') != std::string::npos || std::count(tag.begin(), tag.end(), '"') % 2 != 0) return -1;
      const std::string name = tag.substr(0, tag.find_first_of(" /", 1));
      if (tag[0] == '/') {
        if (open.empty() || "/" + open.back() != name) return -1;
        open.pop_back();
      } else {
        ++elements;
        if (tag.back() != '/') open.push_back(name);
      }
      at = end + 1;
    }
  }
  return open.empty() ? elements : -1;
}

}  // namespace

TEST_CASE("the loss plot is well-formed and within its frame", "[plot]") {
  LossPlot plot{"A <title> & \"more\"", "sub\ntitle", {}, {}};
  SECTION("nothing yet") {}
  SECTION("one point") { plot.training = {{1, 5.5}}; }
  SECTION("equal losses") { plot.training = {{1, 2.0}, {2, 2.0}}; }
  SECTION("many points") {
    for (int i = 1; i <= 5000; ++i) plot.training.push_back({i, 5.0 / std::sqrt(i)});
    for (int i = 500; i <= 5000; i += 500) plot.validation.push_back({i, 5.2 / std::sqrt(i)});
  }
  SECTION("points that are no numbers") {
    const double nan = std::numeric_limits<double>::quiet_NaN(),
                 infinity = std::numeric_limits<double>::infinity();
    plot.training = {{1, 5}, {2, nan}, {3, infinity}, {4, 4}};
  }
  const std::string svg = draw_loss_plot(plot);
  CHECK(count_elements(svg) > 5);
  CHECK(svg.rfind("<svg xmlns=\"http://www.w3.org/2000/svg\"", 0) == 0);
  CHECK(svg.find("nan") == std::string::npos);
  CHECK(svg.find("inf") == std::string::npos);
  CHECK(svg.find("A &lt;title&gt; &amp; &quot;more&quot;") != std::string::npos);
  CHECK(svg.size() < 40000);
  for (std::size_t at = svg.find("points=\""); at != std::string::npos; at = svg.find("points=\"", at + 1)) {
    double x = 0, y = 0;
    REQUIRE(std::sscanf(svg.c_str() + at + 8, "%lf,%lf", &x, &y) == 2);
    CHECK((x >= 0 && x <= 880 && y >= 0 && y <= 480));
  }
}

TEST_CASE("the checker of this test finds malformed pictures", "[plot]") {
  CHECK(count_elements("<a><b/></a>") == 2);
  for (const char* bad : {"<a><b></a>", "<a x=\"1></a>", "<a>&</a>", "<a"}) CHECK(count_elements(bad) == -1);
}
