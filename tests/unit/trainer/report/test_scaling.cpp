// SPDX-License-Identifier: Apache-2.0
#include <cstdio>
#include <nlohmann/json.hpp>

#include "catch.hpp"
#include "content.hpp"
#include "count_elements.hpp"
#include "muster/error.hpp"
#include "report/scaling.hpp"
#include "temporary_folder.hpp"

using namespace muster;

namespace {

/// Weak scaling: 1000 tokens per rank and step, 0.3 s of computing.
ScalingRun make_run(int ranks, int hosts, double step_seconds, double exposed_share = 0) {
  return {ranks, hosts, 1000 * ranks, step_seconds, exposed_share, 0, 100e6};
}

void write_run(const std::filesystem::path& folder, const ScalingRun& run) {
  std::filesystem::create_directory(folder);
  write_file(folder / "summary.json", nlohmann::json{{"world_size", run.ranks},
                                                     {"hosts", run.hosts},
                                                     {"tokens_per_step", run.tokens_per_step},
                                                     {"step_seconds", run.step_seconds},
                                                     {"exposed_share", run.exposed_share},
                                                     {"communication_seconds", run.communication_seconds},
                                                     {"gradient_bytes", run.gradient_bytes}}
                                          .dump());
}

/// The y coordinate of the last of a line's two points; smaller is higher.
double last_height(const std::string& picture, const std::string& line) {
  const std::size_t at = picture.find("<polyline class=\"" + line + "\" points=\"");
  REQUIRE(at != std::string::npos);
  double x[2] = {}, y[2] = {};
  REQUIRE(std::sscanf(picture.c_str() + picture.find("points", at) + 8, "%lf,%lf %lf,%lf", x, y, x + 1,
                      y + 1) == 4);
  CHECK(x[1] > x[0]);
  return y[1];
}

}  // namespace

TEST_CASE("efficiency is measured per rank against the smallest run", "[scaling]") {
  const auto points = compare_runs({make_run(4, 2, 0.4), make_run(1, 1, 0.3), make_run(2, 1, 0.3)}, 0);
  REQUIRE(points.size() == 3);
  CHECK(points[0].run.ranks == 1);
  CHECK(points[0].efficiency == Approx(1));
  CHECK(points[1].efficiency == Approx(1));
  CHECK(points[2].efficiency == Approx(0.75));
  for (const auto& point : points) CHECK(point.predicted_efficiency == Approx(1));
  // Strong scaling: half the work per rank takes two thirds of the time.
  const auto strong = compare_runs({{1, 1, 1000, 0.3, 0, 0, 1e6}, {2, 2, 1000, 0.2, 0, 0, 1e6}}, 0);
  CHECK(strong[1].efficiency == Approx(0.75));
}

TEST_CASE("the prediction hides communication that fits beside the backward pass", "[scaling]") {
  // Two hosts: 2 * 1/2 * 100 MB = 100 MB over each link; 0.2 s of backward pass.
  const std::vector<ScalingRun> runs{make_run(1, 1, 0.3), make_run(2, 2, 0.3)};
  CHECK(compare_runs(runs, 1e9)[1].predicted_efficiency == Approx(1));      // 0.1 s: hidden
  CHECK(compare_runs(runs, 250e6)[1].predicted_efficiency == Approx(0.6));  // 0.4 s: 0.2 s exposed
  // Ranks of one host need no link.
  CHECK(compare_runs({make_run(1, 1, 0.3), make_run(2, 1, 0.3)}, 250e6)[1].predicted_efficiency == Approx(1));
  // The first run's exposed time does not count as computing.
  const auto exposed = compare_runs({make_run(2, 2, 0.5, 0.4), make_run(4, 4, 0.6)}, 250e6);
  CHECK(exposed[0].predicted_efficiency == Approx(1));
  CHECK(exposed[1].predicted_efficiency == Approx(0.5 / 0.7));  // 150 MB: 0.6 s, 0.4 s exposed
}

TEST_CASE("the prediction does not hide parameters that are gathered after the backward pass", "[scaling]") {
  ScalingRun two = make_run(2, 2, 0.4);
  two.gathered_bytes = 100e6;  // 50 MB over each link
  CHECK(compare_runs({make_run(1, 1, 0.3), two}, 500e6)[1].predicted_efficiency == Approx(0.75));
}

TEST_CASE("the link's rate is computed from the runs' own reductions", "[scaling]") {
  ScalingRun two = make_run(2, 2, 0.3), four = make_run(4, 4, 0.3);
  two.communication_seconds = 0.1;
  four.communication_seconds = 0.15;
  CHECK(median_link_rate({make_run(1, 1, 0.3)}) == 0);
  CHECK(median_link_rate({make_run(1, 1, 0.3), two, four}) == Approx(1e9));
}

TEST_CASE("muster-train scaling reads runs, and refuses those that cannot be compared", "[scaling]") {
  const TemporaryFolder folder;
  write_run(folder / "1", make_run(1, 1, 0.3));
  write_run(folder / "2", make_run(2, 2, 0.4));
  const std::string one = (folder / "1").string(), two = (folder / "2").string(),
                    svg = (folder / "s.svg").string();
  const char* both[] = {"scaling", "--output", svg.c_str(), two.c_str(), one.c_str()};
  CHECK(scaling_command(5, both) == 0);
  const std::string picture = content(svg);
  CHECK(count_elements(picture) > 10);
  CHECK(picture.find("weak scaling") != std::string::npos);
  CHECK(picture.find("dashed") != std::string::npos);

  const auto code = [](std::vector<const char*> arguments) {
    arguments.insert(arguments.begin(), "scaling");
    try {
      return scaling_command(static_cast<int>(arguments.size()), arguments.data());
    } catch (const Error& error) {
      CHECK(std::string(error.what()).find('\n') == std::string::npos);
      return error.exit_code();
    }
  };
  CHECK(code({}) == 64);
  CHECK(code({one.c_str(), one.c_str()}) == 64);
  CHECK(code({"/nonexistent"}) == 71);
  const char* missing[] = {"scaling", "/nonexistent"};
  CHECK_THROWS_WITH(scaling_command(2, missing),
                    "cannot read /nonexistent/summary.json: No such file or directory; has that run ended?");
  for (const char* rate : {"--link-gbits=-1", "--link-gbits=nan", "--link-gbits=10G"})
    CHECK(code({rate, one.c_str()}) == 64);
  write_file(folder / "1/summary.json", "{\"world_size\":1}");
  CHECK(code({one.c_str()}) == 64);
  write_run(folder / "2", make_run(2, 2, 0));
  CHECK(code({two.c_str()}) == 64);
}

TEST_CASE("muster-train scaling draws measured and predicted efficiency", "[scaling]") {
  const TemporaryFolder folder;
  write_run(folder / "1", make_run(1, 1, 0.3));
  write_run(folder / "2", make_run(2, 2, 0.4));
  write_run(folder / "whole", {3, 3, 1000, 0.2, 0, 0, 100e6});
  const std::string one = (folder / "1").string(), svg = (folder / "s.svg").string();
  const auto picture = [&](const std::string& other, const char* gbits) {
    std::vector<const char*> arguments{"scaling", "--output", svg.c_str(), other.c_str(), one.c_str()};
    if (gbits != nullptr) arguments.push_back(gbits);
    CHECK(scaling_command(static_cast<int>(arguments.size()), arguments.data()) == 0);
    return content(svg);
  };
  const std::string two = (folder / "2").string(), free = picture(two, nullptr);
  CHECK(free.find("weak scaling") != std::string::npos);
  CHECK(last_height(free, "line1") > last_height(free, "line2 dashed") + 50);  // 75% and 100%
  // 100 MB take 0.4 s with 2 Gbit/s, of which the backward pass hides 0.2 s: 60%.
  const std::string slow = picture(two, "--link-gbits=2");
  CHECK(slow.find("2 Gbit/s between hosts") != std::string::npos);
  CHECK(last_height(slow, "line2 dashed") > last_height(slow, "line1") + 30);
  CHECK(last_height(slow, "line1") == last_height(free, "line1"));
  CHECK(picture((folder / "whole").string(), nullptr).find("strong scaling") != std::string::npos);
}
