// SPDX-License-Identifier: Apache-2.0
// The files and lines that a run leaves for people: charts, report and summary.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <string_view>

#include "files/atomic_file.hpp"
#include "report/report.hpp"
#include "run/run.hpp"
#include "text/plural.hpp"
#include "training/memory_estimate.hpp"

namespace muster {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t averaged_losses = 20;

void write_file(const fs::path& path, const std::string& text) {
  AtomicFile file(path);
  file.write(text);
  file.commit();
}

/// Empty when the file does not exist.
std::string read_earlier(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void add_losses(Summary& summary, const Metrics::History& history) {
  const auto& training = history.training_loss;
  if (const std::size_t count = std::min(averaged_losses, training.size()); count > 0) {
    double sum = 0;
    for (std::size_t i = training.size() - count; i < training.size(); ++i) sum += training[i].y;
    summary.training_loss = sum / static_cast<double>(count);
  }
  summary.skipped_updates = static_cast<std::int64_t>(history.skipped.size());
  if (!history.validation_accuracy.empty())
    summary.validation_accuracy = history.validation_accuracy.back().y;
  const auto& validation = history.validation_loss;
  if (validation.empty()) return;
  summary.validation_loss = validation.back().y;
  const auto best = std::min_element(
      validation.begin(), validation.end(),
      [](const Point& a, const Point& b) { return a.y < b.y || (std::isnan(b.y) && !std::isnan(a.y)); });
  summary.best_validation_loss = best->y;
  summary.best_validation_step = best->x;
}

}  // namespace

const char* Run::unit_name() const {
  return workload_->unit() == std::string_view("image") ? "images" : "tokens";
}

Summary Run::summary(const Progress& progress, const std::string& ended) const {
  Summary s;
  s.ended = ended;
  s.model = workload_->model_line();
  s.unit = workload_->unit();
  s.data = options_.data;
  s.device = compute_->describe();
  s.dtype = options_.dtype;
  s.parameters = static_cast<std::int64_t>(replica_->table().parameter_count);
  s.first_step = first_step_;
  s.steps = state_.step;
  s.wanted_steps = options_.steps;
  s.tokens_per_step = replica_->predictions_per_step();
  s.gradient_bytes = static_cast<std::int64_t>(gradient_bytes_);
  s.gathered_bytes = static_cast<std::int64_t>(gathered_bytes_);
  s.flops_per_token = flops_per_prediction_;
  add_losses(s, metrics_->history());
  const Throughput& throughput = progress.throughput();
  s.wall_seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - started_).count();
  s.training_seconds = throughput.seconds();
  s.tokens_per_second = throughput.median_tokens_per_second();
  s.step_seconds = throughput.median_step_seconds();
  s.exposed_share = throughput.exposed_share();
  if (const std::int64_t steps = state_.step - first_step_; steps > 0)
    s.communication_seconds = communication_seconds_ / static_cast<double>(steps);
  s.peak_flops = peak_flops_;
  if (s.tokens_per_second > 0) s.mfu = throughput.mfu(s.tokens_per_second);
  s.memory = estimate_memory(*workload_, replica_settings(), 0, world_.size());
  s.peak_resident_bytes = peak_resident_bytes();
  s.free_bytes = free_memory_.bytes;
  s.world_size = world_.size();
  s.hosts = job_.host_count();
  s.backend = world_.backend();
  s.checkpoint = good_checkpoint_.string();
  s.ranks = rank_info_;
  return s;
}

std::function<void()> Run::make_report_writer(const Progress& progress, const std::string& ended) const {
  const std::string title = fmt::format("Training on {}", fs::path(options_.data).filename().string());
  const std::string subtitle = fmt::format("{}; {} samples a step on {}", workload_->model_line(),
                                           options_.batch, plural(world_.size(), "rank"));
  return [title, subtitle, folder = folder(), history = metrics_->history(), now = summary(progress, ended),
          &options = options_] {
    write_file(folder / "loss.svg", draw_chart_file(loss_chart(history, title, subtitle, now.unit)));
    write_file(folder / "report.html", draw_report(now, history, options));
  };
}

void Run::write_results(const Progress& progress, const std::string& ended) {
  flush_records();
  // A finished run that is started again (for example by a requeued job) has no speed to report: the earlier
  // summary is kept.
  const bool is_up_to_date = state_.step == first_step_ &&
                             is_summary_of(read_earlier(folder() / "summary.json"), ended, state_.step);
  if (!is_up_to_date) {
    make_report_writer(progress, ended)();
    write_file(folder() / "summary.json", as_json(summary(progress, ended)));
  }
  fmt::print("metrics    {}\n", metrics_path_.string());
  if (!good_checkpoint_.empty()) fmt::print("checkpoint {}\n", good_checkpoint_.string());
  fmt::print("summary    {}\nreport     {}\n", (folder() / "summary.json").string(),
             (folder() / "report.html").string());
  std::fflush(stdout);
}

}  // namespace muster
