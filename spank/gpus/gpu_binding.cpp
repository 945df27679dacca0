// SPDX-License-Identifier: Apache-2.0
#include "gpus/gpu_binding.hpp"

#include <algorithm>
#include <charconv>
#include <cstdint>

namespace muster::spank {

namespace {

using Places = std::vector<int>;

template <typename Number>
std::optional<Number> number_of(std::string_view digits, int base = 10) {
  Number number{};
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number, base);
  if (error != std::errc() || end != digits.data() + digits.size()) return std::nullopt;
  return number;
}

// Empty: no such GPU.
Places places_of_number(std::string_view text, const std::vector<int>& names) {
  const auto name = number_of<int>(text);
  const auto at = name ? std::find(names.begin(), names.end(), *name) : names.end();
  if (at == names.end()) return {};
  return {static_cast<int>(at - names.begin())};
}

Places places_of_mask(std::string_view text, const std::vector<int>& names) {
  constexpr int bits = 64;
  if (text.starts_with("0x")) text.remove_prefix(2);
  const auto mask = number_of<std::uint64_t>(text, 16);
  Places places;
  for (std::size_t i = 0; mask && i < names.size(); ++i)
    if (names[i] < bits && (*mask >> names[i] & 1) != 0) places.push_back(static_cast<int>(i));
  return places;
}

// "0*2,1" → the GPUs of each task.
template <typename Read>
std::optional<std::vector<Places>> read_list(std::string_view list, std::size_t tasks, Read read) {
  std::vector<Places> dealt;
  while (!list.empty() && dealt.size() < tasks) {
    const std::string_view entry = list.substr(0, list.find(','));
    list.remove_prefix(std::min(list.size(), entry.size() + 1));
    const auto star = std::min(entry.find('*'), entry.size());
    const auto times = star == entry.size() ? 1 : number_of<std::size_t>(entry.substr(star + 1)).value_or(0);
    const Places places = read(entry.substr(0, star));
    if (places.empty() || times == 0) return std::nullopt;
    dealt.insert(dealt.end(), std::min(times, tasks - dealt.size()), places);
  }
  if (dealt.empty()) return std::nullopt;
  for (std::size_t i = 0; dealt.size() < tasks; ++i) dealt.push_back(Places(dealt[i]));
  return dealt;
}

}  // namespace

std::optional<std::vector<std::vector<int>>> bound_gpus(std::string_view binding, int tasks,
                                                        const std::vector<int>& names) {
  const auto colon = std::min(binding.find(':'), binding.size());
  const std::string_view kind = binding.substr(0, colon);
  const std::string_view rest = binding.substr(std::min(colon + 1, binding.size()));
  const auto count = static_cast<std::size_t>(std::max(tasks, 0));
  if (kind == "map_gpu" || kind == "map")
    return read_list(rest, count, [&](std::string_view text) { return places_of_number(text, names); });
  if (kind == "mask_gpu" || kind == "mask")
    return read_list(rest, count, [&](std::string_view text) { return places_of_mask(text, names); });
  const auto tasks_per_gpu = kind == "single" ? number_of<int>(rest).value_or(0) : 0;
  if (tasks_per_gpu < 1) return std::nullopt;
  std::vector<Places> dealt;
  for (int task = 0; task < tasks; ++task)
    dealt.push_back({task / tasks_per_gpu % static_cast<int>(names.size())});
  return dealt;
}

}  // namespace muster::spank
