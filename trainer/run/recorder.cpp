// SPDX-License-Identifier: Apache-2.0
#include "run/recorder.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <set>

#include "files/output_file.hpp"
#include "machine/host_memory.hpp"
#include "report/report.hpp"
#include "text/plural.hpp"

namespace muster {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t averaged_losses = 20;

void write_file(const fs::path& path, const std::string& text) {
  OutputFile file(path);
  file.write(text);
  file.commit();
}

/// ", 97.31% right (9731)"; empty for a model without accuracy.
std::string accuracy_text(const Average& accuracy) {
  if (accuracy.weight == 0) return "";
  return fmt::format(", {:.2f}% right ({:.0f})", 100 * accuracy.value(), accuracy.sum);
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

Recorder::Recorder(const Options& options, Summary facts, bool continues,
                   std::chrono::steady_clock::time_point started)
    : options_(options),
      folder_(options.output),
      metrics_path_(folder_ / "metrics.jsonl"),
      facts_(std::move(facts)),
      started_(started),
      metrics_(metrics_path_, continues, facts_.first_step) {
  if (options.tensorboard) events_.emplace(folder_ / "tensorboard", facts_.first_step);
}

void Recorder::communication(const StepResult& result) {
  communication_seconds_ += result.communication;
  loading_seconds_ += result.loading;
  gradient_bytes_ += static_cast<double>(result.gradient_bytes);
  // A GPU's reduction may be unknown for a step.
  if (result.gradient_bytes > 0) ++reducing_steps_;
  if (result.synchronized) ++synchronizations_;
  facts_.gathered_bytes = static_cast<std::int64_t>(result.gathered_bytes);
}

void Recorder::step(Progress& progress, std::int64_t step, const StepResult& result, double learning_rate) {
  const std::int64_t tokens = facts_.tokens_per_step;
  StepRecord record{step, result.loss, learning_rate, result.gradient_norm, tokens};
  record.exposed_seconds = result.exposed;
  record.communicated_bytes = result.gradient_bytes + result.gathered_bytes;
  record.synchronized = result.synchronized;
  if (result.synchronized) progress.note(describe_synchronizations());
  if (result.idle_share) progress.note(fmt::format("idle {:.1f}%", 100 * *result.idle_share));
  record.seconds = progress.step(step, result.loss, tokens, result.exposed, result.done);
  record.mfu = progress.throughput().mfu(record.tokens_per_second());
  metrics_.training(record);
  if (events_) events_->training(record);
}

void Recorder::synchronization(const Synchronization& done) {
  communication_seconds_ += done.seconds;
  gradient_bytes_ += static_cast<double>(done.bytes);
  ++synchronizations_;
}

double Recorder::mean_gradient_bytes() const {
  return reducing_steps_ > 0 ? gradient_bytes_ / static_cast<double>(reducing_steps_) : 0;
}

std::string Recorder::describe_synchronizations() const {
  return fmt::format("{}, {:.3g} MB/step", plural(synchronizations_, "average"), mean_gradient_bytes() / 1e6);
}

void Recorder::validation(Progress& progress, std::int64_t step, const Validation& found) {
  const double loss = found.loss.value();
  progress.line(fmt::format("validation loss {} nats/{} over {} {}s{}, after step {}", format_loss(loss),
                            facts_.unit, static_cast<std::int64_t>(found.loss.weight), facts_.unit,
                            accuracy_text(found.accuracy), step));
  const bool has_accuracy = found.accuracy.weight > 0;
  std::optional<std::int64_t> right;
  if (has_accuracy) right = static_cast<std::int64_t>(found.accuracy.sum);
  const bool is_new = metrics_.validation(step, loss, static_cast<std::int64_t>(found.loss.weight), right);
  if (is_new && events_)
    events_->validation(step, loss, has_accuracy ? std::optional(found.accuracy.value()) : std::nullopt);
}

bool Recorder::has_validation(std::int64_t step) const {
  const auto& losses = metrics_.history().validation_loss;
  return !losses.empty() && losses.back().x == step;
}

void Recorder::left_out(Progress& progress, const std::vector<std::vector<std::string>>& images) {
  std::set<std::string> all;
  for (const auto& of_rank : images) all.insert(of_rank.begin(), of_rank.end());
  left_out_.assign(all.begin(), all.end());
  if (left_out_.empty()) return;
  progress.line(fmt::format("warning: {} cannot be used and {} left out, such as {} (summary.json lists all)",
                            plural(static_cast<std::int64_t>(left_out_.size()), "picture"),
                            left_out_.size() == 1 ? "was" : "were", left_out_.front()));
}

void Recorder::flush() {
  metrics_.flush();
  if (events_) events_->flush();
}

Summary Recorder::summary(const Throughput& throughput, std::int64_t step, const fs::path& checkpoint,
                          const std::string& ended) const {
  Summary s = facts_;
  s.ended = ended;
  s.steps = step;
  s.checkpoint = checkpoint.string();
  add_losses(s, metrics_.history());
  s.wall_seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - started_).count();
  s.training_seconds = throughput.seconds();
  s.tokens_per_second = throughput.median_tokens_per_second();
  s.step_seconds = throughput.median_step_seconds();
  s.exposed_share = throughput.exposed_share();
  if (const std::int64_t steps = step - s.first_step; steps > 0)
    s.communication_seconds = communication_seconds_ / static_cast<double>(steps);
  if (s.training_seconds > 0) s.loading_share = loading_seconds_ / s.training_seconds;
  s.gradient_bytes = std::llround(mean_gradient_bytes());
  s.synchronizations = synchronizations_;
  s.left_out_images = left_out_;
  if (s.tokens_per_second > 0) s.mfu = throughput.mfu(s.tokens_per_second);
  s.peak_resident_bytes = peak_resident_bytes();
  return s;
}

std::function<void()> Recorder::report_writer(Summary summary) const {
  const std::string title = fmt::format("Training on {}", fs::path(options_.data).filename().string());
  const std::string subtitle = fmt::format("{}; {} samples a step on {}", summary.model, options_.batch,
                                           plural(summary.world_size, "rank"));
  return [title, subtitle, folder = folder_, history = metrics_.history(), now = std::move(summary),
          &options = options_] {
    write_file(folder / "loss.svg", draw_chart_file(loss_chart(history, title, subtitle, now.unit)));
    write_file(folder / "report.html", draw_report(now, history, options));
  };
}

void Recorder::write_results(const Summary& summary) {
  flush();
  // A finished run that is started again (for example by a requeued job) has no speed to report: the earlier
  // summary is kept.
  const bool is_up_to_date =
      summary.steps == summary.first_step &&
      is_summary_of(read_earlier(folder_ / "summary.json"), summary.ended, summary.steps);
  if (!is_up_to_date) {
    report_writer(summary)();
    write_file(folder_ / "summary.json", as_json(summary));
  }
  fmt::print("metrics    {}\n", metrics_path_.string());
  if (!summary.checkpoint.empty()) fmt::print("checkpoint {}\n", summary.checkpoint);
  fmt::print("summary    {}\nreport     {}\n", (folder_ / "summary.json").string(),
             (folder_ / "report.html").string());
  std::fflush(stdout);
}

}  // namespace muster
