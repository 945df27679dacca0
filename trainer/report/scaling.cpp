// SPDX-License-Identifier: Apache-2.0
#include "report/scaling.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "muster/error.hpp"
#include "text/plural.hpp"

namespace muster {
namespace {

constexpr double backward_share = 2.0 / 3;

/// Bytes per step that a host's link transfers of gradients and of parameters.
double reduced_bytes(const ScalingRun& run) { return 2.0 * (run.hosts - 1) / run.hosts * run.gradient_bytes; }
double gathered_bytes(const ScalingRun& run) {
  return 1.0 * (run.hosts - 1) / run.hosts * run.gathered_bytes;
}

double rate(const ScalingRun& run) { return static_cast<double>(run.tokens_per_step) / run.step_seconds; }

double predicted_seconds(const ScalingRun& run, double seconds_per_token, double link_rate) {
  const double computing = seconds_per_token * static_cast<double>(run.tokens_per_step) / run.ranks;
  if (link_rate <= 0) return computing;
  return computing + std::max(0.0, reduced_bytes(run) / link_rate - backward_share * computing) +
         gathered_bytes(run) / link_rate;
}

}  // namespace

double median_link_rate(const std::vector<ScalingRun>& runs) {
  std::vector<double> rates;
  for (const ScalingRun& run : runs) {
    if (run.hosts > 1 && run.communication_seconds > 0)
      rates.push_back((reduced_bytes(run) + gathered_bytes(run)) / run.communication_seconds);
  }
  if (rates.empty()) return 0;
  const auto middle = rates.begin() + static_cast<std::ptrdiff_t>(rates.size() / 2);
  std::nth_element(rates.begin(), middle, rates.end());
  return *middle;
}

std::vector<ScalingPoint> compare_runs(std::vector<ScalingRun> runs, double link_rate) {
  std::sort(runs.begin(), runs.end(), [](const auto& a, const auto& b) { return a.ranks < b.ranks; });
  if (runs.empty()) throw Error(ErrorCode::usage, "no runs to compare");
  for (const ScalingRun& run : runs) {
    if (run.step_seconds <= 0 || run.tokens_per_step <= 0 || run.ranks < 1)
      throw Error(ErrorCode::usage, fmt::format("the run of {} ranks has no steps to compare", run.ranks));
  }
  for (std::size_t i = 1; i < runs.size(); ++i) {
    if (runs[i].ranks == runs[i - 1].ranks)
      throw Error(ErrorCode::usage,
                  fmt::format("two runs have {}: give one of each size", plural(runs[i].ranks, "rank")));
  }
  const ScalingRun& first = runs.front();
  const double seconds_per_token = first.step_seconds * (1 - std::clamp(first.exposed_share, 0.0, 1.0)) *
                                   first.ranks / static_cast<double>(first.tokens_per_step);
  const auto predicted_rate = [&](const ScalingRun& run) {
    return static_cast<double>(run.tokens_per_step) / predicted_seconds(run, seconds_per_token, link_rate);
  };
  std::vector<ScalingPoint> points;
  for (const ScalingRun& run : runs) {
    const double ratio = static_cast<double>(run.ranks) / first.ranks;
    points.push_back({run, rate(run), rate(run) / rate(first) / ratio,
                      predicted_rate(run) / predicted_rate(first) / ratio});
  }
  return points;
}

}  // namespace muster
