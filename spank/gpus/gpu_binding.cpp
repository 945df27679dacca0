// SPDX-License-Identifier: Apache-2.0
#include "gpus/gpu_binding.hpp"

#include <algorithm>
#include <cstdint>

#include "text/parse_number.hpp"

namespace muster::spank {

namespace {

using GpuIndices = std::vector<int>;

// Empty: no such GPU.
GpuIndices parse_gpu_number(std::string_view text, const std::vector<int>& gpu_numbers) {
  const auto name = parse_number<int>(text);
  const auto at = name ? std::find(gpu_numbers.begin(), gpu_numbers.end(), *name) : gpu_numbers.end();
  if (at == gpu_numbers.end()) return {};
  return {static_cast<int>(at - gpu_numbers.begin())};
}

GpuIndices parse_gpu_mask(std::string_view text, const std::vector<int>& gpu_numbers) {
  constexpr int bits = 64;
  if (text.starts_with("0x")) text.remove_prefix(2);
  const auto mask = parse_number<std::uint64_t>(text, 16);
  GpuIndices indices;
  for (std::size_t i = 0; mask && i < gpu_numbers.size(); ++i)
    if (gpu_numbers[i] < bits && (*mask >> gpu_numbers[i] & 1) != 0) indices.push_back(static_cast<int>(i));
  return indices;
}

// "0*2,1" → the GPUs of each task.
template <typename Read>
std::optional<std::vector<GpuIndices>> parse_list(std::string_view list, std::size_t tasks, Read read) {
  std::vector<GpuIndices> assigned;
  while (!list.empty() && assigned.size() < tasks) {
    const std::string_view entry = list.substr(0, list.find(','));
    list.remove_prefix(std::min(list.size(), entry.size() + 1));
    const auto star = std::min(entry.find('*'), entry.size());
    const auto times =
        star == entry.size() ? 1 : parse_number<std::size_t>(entry.substr(star + 1)).value_or(0);
    const GpuIndices indices = read(entry.substr(0, star));
    if (indices.empty() || times == 0) return std::nullopt;
    assigned.insert(assigned.end(), std::min(times, tasks - assigned.size()), indices);
  }
  if (assigned.empty()) return std::nullopt;
  for (std::size_t i = 0; assigned.size() < tasks; ++i) assigned.emplace_back(assigned[i]);
  return assigned;
}

}  // namespace

std::optional<std::vector<std::vector<int>>> parse_gpu_binding(std::string_view binding, int tasks,
                                                               const std::vector<int>& gpu_numbers) {
  const auto colon = std::min(binding.find(':'), binding.size());
  const std::string_view kind = binding.substr(0, colon);
  const std::string_view rest = binding.substr(std::min(colon + 1, binding.size()));
  const auto count = static_cast<std::size_t>(std::max(tasks, 0));
  if (kind == "map_gpu" || kind == "map")
    return parse_list(rest, count,
                      [&](std::string_view text) { return parse_gpu_number(text, gpu_numbers); });
  if (kind == "mask_gpu" || kind == "mask")
    return parse_list(rest, count, [&](std::string_view text) { return parse_gpu_mask(text, gpu_numbers); });
  const auto tasks_per_gpu = kind == "single" ? parse_number<int>(rest).value_or(0) : 0;
  if (tasks_per_gpu < 1) return std::nullopt;
  std::vector<GpuIndices> assigned;
  for (int task = 0; task < tasks; ++task)
    assigned.push_back({task / tasks_per_gpu % static_cast<int>(gpu_numbers.size())});
  return assigned;
}

}  // namespace muster::spank
