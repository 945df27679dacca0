// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "config/option_validators.hpp"
#include "config/parse_command.hpp"
#include "files/output_file.hpp"
#include "muster/error.hpp"
#include "report/chart.hpp"
#include "report/scaling.hpp"

namespace muster {
namespace {

constexpr double bytes_per_gbit = 1e9 / 8;

ScalingRun read_run(const std::string& folder) {
  const std::string path = folder + "/summary.json";
  std::ifstream file(path);
  if (!file) {
    throw Error(ErrorCode::system,
                fmt::format("cannot read {}: {}; has that run ended?", path, std::strerror(errno)));
  }
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  try {
    const auto json = nlohmann::json::parse(text);
    return {json.at("world_size").get<int>(),
            json.at("hosts").get<int>(),
            json.at("tokens_per_step").get<std::int64_t>(),
            json.at("step_seconds").get<double>(),
            json.at("exposed_share").get<double>(),
            json.at("communication_seconds").get<double>(),
            json.at("gradient_bytes").get<double>(),
            json.value("gathered_bytes", 0.0)};
  } catch (const nlohmann::json::exception&) {
    throw Error(ErrorCode::usage, fmt::format("{} is not a summary of muster-train", path));
  }
}

/// "weak" when the tokens per rank are equal in all runs, "strong" when the tokens per step are.
std::string describe_scaling(const std::vector<ScalingPoint>& points) {
  const auto same = [&](auto value) {
    return std::all_of(points.begin(), points.end(),
                       [&](const ScalingPoint& p) { return value(p.run) == value(points.front().run); });
  };
  if (points.size() < 2) return "one run";
  if (same([](const ScalingRun& r) { return r.tokens_per_step; })) return "strong scaling";
  if (same([](const ScalingRun& r) { return r.tokens_per_step / r.ranks; })) return "weak scaling";
  return "mixed sizes";
}

void print_table(const std::vector<ScalingPoint>& points) {
  fmt::print("{:>6} {:>6} {:>12} {:>11} {:>9} {:>10} {:>10}\n", "ranks", "hosts", "tokens/s", "step ms",
             "exposed", "efficiency", "predicted");
  for (const ScalingPoint& p : points) {
    fmt::print("{:>6} {:>6} {:>12.0f} {:>11.2f} {:>8.1f}% {:>9.1f}% {:>9.1f}%\n", p.run.ranks, p.run.hosts,
               p.tokens_per_second, 1e3 * p.run.step_seconds, 100 * p.run.exposed_share, 100 * p.efficiency,
               100 * p.predicted_efficiency);
  }
}

void draw(const std::vector<ScalingPoint>& points, double link_rate, const std::string& path) {
  Series measured{"measured", {}, Series::Style::marked, 1},
      predicted{"predicted", {}, Series::Style::dashed, 2};
  for (const ScalingPoint& p : points) {
    measured.points.push_back({p.run.ranks, p.efficiency});
    predicted.points.push_back({p.run.ranks, p.predicted_efficiency});
  }
  const std::string link = link_rate > 0
                               ? fmt::format("{:.3g} Gbit/s between hosts", link_rate / bytes_per_gbit)
                               : std::string("links that cost nothing");
  Chart chart{fmt::format("Efficiency, {}", describe_scaling(points)),
              "predicted from the smallest run and " + link,
              "ranks",
              "per cent of the smallest run's tokens/s per rank",
              {measured, predicted},
              true,
              480,
              100};
  OutputFile file(path);
  file.write(draw_chart_file(chart));
  file.commit();
}

}  // namespace

int scaling_command(int argc, const char* const* argv) {
  std::vector<std::string> folders;
  std::string output = "scaling.svg";
  double gbits = 0;
  CLI::App app(
      "Compares runs of muster-train on growing numbers of ranks: measured and predicted efficiency.",
      "muster-train scaling");
  app.add_option("FOLDER", folders, "Output folders of finished runs, one of each size")->required();
  app.add_option("--output", output, "Chart file to write")->capture_default_str();
  app.add_option("--link-gbits", gbits,
                 "Gbit/s of a host's link, for the prediction; if not given, the rate that the runs' own "
                 "reductions reached")
      ->check(number("above 0", [](double rate) { return std::isfinite(rate) && rate > 0; }));
  if (!parse_command(app, argc, argv)) return 0;
  std::vector<ScalingRun> runs;
  for (const std::string& folder : folders) runs.push_back(read_run(folder));
  const double link_rate = gbits > 0 ? gbits * bytes_per_gbit : median_link_rate(runs);
  const auto points = compare_runs(runs, link_rate);
  print_table(points);
  draw(points, link_rate, output);
  fmt::print("plot {}\n", output);
  return 0;
}

}  // namespace muster
