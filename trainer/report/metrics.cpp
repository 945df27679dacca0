// SPDX-License-Identifier: Apache-2.0
#include "report/metrics.hpp"

#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <sstream>

#include "file/regular_file.hpp"
#include "files/output_file.hpp"

namespace muster {
namespace {

/// JSON has finite numbers only.
std::string format_json_loss(double loss) {
  return std::isfinite(loss) ? fmt::format("{:.6f}", loss) : "null";
}

}  // namespace

Metrics::Metrics(std::filesystem::path path, bool resume, std::int64_t resumed_step) {
  OutputFile file(path);
  if (resume) file.write(keep_earlier_lines(path, resumed_step));
  file.commit();
  file_.emplace(std::move(path));
}

std::string Metrics::keep_earlier_lines(const std::filesystem::path& path, std::int64_t resumed_step) {
  const auto file = read_regular_file(path, std::numeric_limits<std::size_t>::max());
  std::istringstream earlier(file ? file->text : "");
  std::string line, lines;
  const auto number = [](const nlohmann::json& record, const char* key) -> std::optional<double> {
    const auto at = record.find(key);
    return at != record.end() && at->is_number() ? std::optional(at->get<double>()) : std::nullopt;
  };
  while (std::getline(earlier, line)) {
    const auto record = nlohmann::json::parse(line, nullptr, false);
    if (!record.is_object() || !record.contains("step") || !record["step"].is_number_integer()) continue;
    const auto step = record["step"].get<std::int64_t>();
    if (step > resumed_step) continue;
    for (auto [key, points] : {std::pair{"train_loss", &history_.training_loss},
                               std::pair{"validation_loss", &history_.validation_loss},
                               std::pair{"tokens_per_second", &history_.tokens_per_second}}) {
      if (const auto value = number(record, key)) points->push_back({step, *value});
    }
    const auto right = number(record, "validation_right"), of = number(record, "validation_count");
    if (right && of && *of > 0) history_.validation_accuracy.push_back({step, *right / *of});
    if (record.contains("skipped")) history_.skipped.push_back({step, 0});
    const auto exposed = number(record, "exposed_ms"), whole = number(record, "step_ms");
    if (exposed && whole && *whole > 0) history_.exposed_share.push_back({step, *exposed / *whole});
    lines += line + '\n';
  }
  return lines;
}

void Metrics::training(const StepRecord& r) {
  history_.training_loss.push_back({r.step, r.loss});
  history_.tokens_per_second.push_back({r.step, r.tokens_per_second()});
  history_.exposed_share.push_back({r.step, r.exposed_share()});
  file_->add(fmt::format(
      R"({{"step":{},"train_loss":{:.6f},"learning_rate":{:.6g},"gradient_norm":{:.6g},"tokens_per_second":{:.0f},"step_ms":{:.3f},"exposed_ms":{:.3f},"communicated_bytes":{}{}{}}})"
      "\n",
      r.step, r.loss, r.learning_rate, r.gradient_norm, r.tokens_per_second(), r.seconds * 1e3,
      r.exposed_seconds * 1e3, r.communicated_bytes, r.synchronized ? R"(,"synchronized":true)" : "",
      r.mfu ? fmt::format(R"(,"mfu":{:.4f})", *r.mfu) : ""));
}

void Metrics::skipped(std::int64_t step) {
  history_.skipped.push_back({step, 0});
  file_->add(fmt::format(R"({{"step":{},"skipped":true}})"
                         "\n",
                         step));
}

bool Metrics::validation(std::int64_t step, double loss, std::int64_t count,
                         std::optional<std::int64_t> right) {
  // A run that is started again after its last step repeats its last validation.
  const auto& losses = history_.validation_loss;
  if (!losses.empty() && losses.back().x == step && std::abs(losses.back().y - loss) < 1e-6) return false;
  history_.validation_loss.push_back({step, loss});
  if (right)
    history_.validation_accuracy.push_back({step, static_cast<double>(*right) / static_cast<double>(count)});
  file_->add(fmt::format(R"({{"step":{},"validation_loss":{},"validation_count":{}{}}})"
                         "\n",
                         step, format_json_loss(loss), count,
                         right ? fmt::format(R"(,"validation_right":{})", *right) : ""));
  return true;
}

}  // namespace muster
