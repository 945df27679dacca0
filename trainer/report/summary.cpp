// SPDX-License-Identifier: Apache-2.0
#include "report/summary.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "muster/version.hpp"

namespace muster {
namespace {

nlohmann::ordered_json to_json_or_null(const std::optional<double>& value) {
  return value ? nlohmann::ordered_json(*value) : nlohmann::ordered_json(nullptr);
}

nlohmann::ordered_json machine_json(const Summary& s) {
  auto ranks = nlohmann::ordered_json::array();
  for (const RankInfo& r : s.ranks) {
    ranks.push_back({{"rank", r.rank},
                     {"host", r.host},
                     {"gpus", r.gpus},
                     {"cpus", r.cpus},
                     {"memory", r.memory},
                     {"nics", r.nics},
                     {"placed", r.placed},
                     {"threads", r.threads},
                     {"peak_flops", r.peak_flops}});
  }
  nlohmann::ordered_json machine{{"device", s.device}, {"dtype", s.dtype}, {"backend", s.backend}};
  if (!s.ranks.empty()) {
    const RankInfo& first = s.ranks.front();
    machine["processor"] = first.processor;
    machine["kernel"] = first.kernel;
    machine["cpus"] = first.host_cpus;
    machine["memory_bytes"] = first.host_memory;
  }
  machine["ranks"] = std::move(ranks);
  return machine;
}

nlohmann::ordered_json memory_json(const Summary& s) {
  auto segments = nlohmann::ordered_json::object();
  for (const MemorySegment& segment : s.memory) segments[segment.name] = segment.bytes;
  return {{"planned_bytes", total_bytes(s.memory)},
          {"planned_offloaded_bytes", offloaded_bytes(s.memory)},
          {"gpu_bytes", s.gpu_bytes},
          {"peak_resident_bytes", s.peak_resident_bytes},
          {"free_bytes", s.free_bytes},
          {"segments", std::move(segments)}};
}

}  // namespace

std::string as_json(const Summary& s) {
  const nlohmann::ordered_json json{{"version", version},
                                    {"ended", s.ended},
                                    {"model", s.model},
                                    {"parameters", s.parameters},
                                    {"unit", s.unit},
                                    {"data", s.data},
                                    {"steps", s.steps},
                                    {"wanted_steps", s.wanted_steps},
                                    {"first_step", s.first_step},
                                    {"training_loss", to_json_or_null(s.training_loss)},
                                    {"validation_loss", to_json_or_null(s.validation_loss)},
                                    {"best_validation_loss", to_json_or_null(s.best_validation_loss)},
                                    {"best_validation_step", s.best_validation_step},
                                    {"validation_accuracy", to_json_or_null(s.validation_accuracy)},
                                    {"skipped_updates", s.skipped_updates},
                                    {"tokens_per_step", s.tokens_per_step},
                                    {"tokens_per_second", s.tokens_per_second},
                                    {"step_seconds", s.step_seconds},
                                    {"exposed_share", s.exposed_share},
                                    {"loading_share", s.loading_share},
                                    {"left_out_images", s.left_out_images},
                                    {"lost_ranks", s.lost_ranks},
                                    {"joined_ranks", s.joined_ranks},
                                    {"communication_seconds", s.communication_seconds},
                                    {"strategy", s.strategy},
                                    {"synchronizations", s.synchronizations},
                                    {"gradient_bytes", s.gradient_bytes},
                                    {"gathered_bytes", s.gathered_bytes},
                                    {"flops_per_token", s.flops_per_token},
                                    {"peak_flops", s.peak_flops > 0 ? nlohmann::ordered_json(s.peak_flops)
                                                                    : nlohmann::ordered_json(nullptr)},
                                    {"mfu", to_json_or_null(s.mfu)},
                                    {"wall_seconds", s.wall_seconds},
                                    {"training_seconds", s.training_seconds},
                                    {"memory", memory_json(s)},
                                    {"world_size", s.world_size},
                                    {"hosts", s.hosts},
                                    {"checkpoint", s.checkpoint},
                                    {"machine", machine_json(s)}};
  return json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + '\n';
}

bool is_summary_of(const std::string& text, const std::string& ended, std::int64_t steps) {
  const auto json = nlohmann::json::parse(text, nullptr, false);
  return json.is_object() && json.value("ended", nlohmann::json()) == ended &&
         json.value("steps", nlohmann::json()) == steps;
}

std::string format_flops(double flops) {
  for (const auto& [unit, name] : {std::pair{1e15, "PFLOP/s"}, std::pair{1e12, "TFLOP/s"}}) {
    if (flops >= unit) return fmt::format("{:.3g} {}", flops / unit, name);
  }
  return fmt::format("{:.3g} GFLOP/s", flops / 1e9);
}

}  // namespace muster
