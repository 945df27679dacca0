// SPDX-License-Identifier: Apache-2.0
#include "slurm/rank_layout.hpp"

#include <algorithm>
#include <map>
#include <numeric>

#include "host_list/expand_host_list.hpp"
#include "text/parse_number.hpp"
#include "text/split.hpp"

namespace muster::spank {

namespace {

using Layout = std::vector<std::vector<int>>;

std::optional<int> positive(std::string_view text) {
  const auto value = parse_number<int>(text);
  return value && *value > 0 ? value : std::nullopt;
}

/// Gives `chunk` ranks to each node that has room, in turn. Block distribution is one turn with chunks as
/// large as the step.
Layout distribute(const std::vector<int>& counts, int chunk) {
  chunk = std::max(chunk, 1);
  Layout ranks(counts.size());
  const auto is_full = [&](std::size_t node) { return static_cast<int>(ranks[node].size()) >= counts[node]; };
  std::vector<std::size_t> open(counts.size());
  std::iota(open.begin(), open.end(), std::size_t{0});
  // Full nodes are removed, so that the time depends on the ranks and not on all nodes in every turn.
  for (int rank = 0; !open.empty(); std::erase_if(open, is_full))
    for (const std::size_t node : open)
      for (int k = 0; k < chunk && !is_full(node); ++k) ranks[node].push_back(rank++);
  return ranks;
}

std::string shortened(const std::string& text) {
  constexpr std::size_t longest = 200;
  return text.size() > longest ? text.substr(0, longest) + "..." : text;
}

std::string too_many(long ranks) {
  return std::to_string(ranks) + " ranks are more than the " + std::to_string(most_ranks) +
         " that Muster lays out";
}

/// "2,0,0,1": rank 0 on node 2 … Empty if it is malformed or gives other counts.
Layout apply_explicit_layout(const std::string& explicit_layout, const std::vector<int>& counts) {
  Layout ranks(counts.size());
  int rank = 0;
  for (const auto word : split(explicit_layout, ',')) {
    const auto node = parse_number<std::size_t>(word);
    if (!node || *node >= ranks.size()) return {};
    ranks[*node].push_back(rank++);
  }
  for (std::size_t node = 0; node < counts.size(); ++node)
    if (static_cast<int>(ranks[node].size()) != counts[node]) return {};
  return ranks;
}

/// Whether each node can distinguish the two by its own ranks, so that all nodes reach the same result.
bool are_distinguishable(const Layout& one, const Layout& other) {
  if (one == other) return true;
  for (std::size_t node = 0; node < one.size(); ++node)
    if (one[node] == other[node]) return false;
  return true;
}

Layout distribute_as_requested(const StepShape& shape, const std::vector<int>& counts, std::string& unknown) {
  const std::string_view distribution = std::string_view(shape.distribution);
  Layout block = distribute(counts, shape.world_size);
  if (distribution.empty() || distribution.starts_with("block") || distribution == "pack" ||
      distribution == "nopack")
    return block;
  Layout ranks;
  if (distribution.starts_with("cyclic")) {
    ranks = distribute(counts, 1);
  } else if (const auto plane = positive(shape.plane_size); distribution.starts_with("plane") && plane) {
    ranks = distribute(counts, *plane);
  } else if (distribution.starts_with("arbitrary") && !shape.explicit_layout.empty()) {
    ranks = apply_explicit_layout(shape.explicit_layout, counts);
    if (ranks.empty()) unknown = "the layout of ranks from srun does not fit the step";
    return ranks;
  } else {
    unknown = "with --distribution=" + shape.distribution + " Slurm does not report which rank runs where";
    return {};
  }
  // SLURM_DISTRIBUTION may be the job's although srun was given Slurm's default (-m '*').
  if (are_distinguishable(ranks, block)) return ranks;
  unknown = "with " + shape.tasks_per_node + " tasks a node, --distribution=" + shape.distribution +
            " cannot be distinguished from block on every node";
  return {};
}

void append(std::string& list, const std::string& item) {
  if (!list.empty()) list += ',';
  list += item;
}

}  // namespace

std::optional<std::size_t> RankLayout::node_of(int rank) const {
  for (std::size_t node = 0; node < ranks.size(); ++node)
    if (std::binary_search(ranks[node].begin(), ranks[node].end(), rank)) return node;
  return std::nullopt;
}

std::string format_layout(std::uint32_t job_id, std::uint32_t step_id,
                          const std::vector<std::uint32_t>& nodes) {
  constexpr std::size_t longest = 128 * 1024;  // MAX_ARG_STRLEN of linux/binfmts.h with pages of 4 KiB
  constexpr std::size_t name = std::char_traits<char>::length(layout_variable) + 2;  // with = and the null
  std::string text = std::to_string(job_id) + "." + std::to_string(step_id);
  char before = ':';
  for (const std::uint32_t node : nodes) {
    text += before;
    text += std::to_string(node);
    before = ',';
    if (text.size() + name > longest) return {};
  }
  return text;
}

std::string extract_layout(const std::string& text, std::uint32_t job_id, std::uint32_t step_id) {
  const std::string prefix = std::to_string(job_id) + "." + std::to_string(step_id) + ":";
  return text.starts_with(prefix) ? text.substr(prefix.size()) : std::string();
}

std::optional<std::vector<int>> expand_counts(std::string_view text) {
  std::vector<int> counts;
  long ranks = 0;
  while (!text.empty()) {
    const std::size_t comma = text.find(',');
    std::string_view part = text.substr(0, comma);
    int times = 1;
    if (const std::size_t open = part.find("(x"); open != std::string_view::npos) {
      if (!part.ends_with(')')) return std::nullopt;
      const auto repeated = positive(part.substr(open + 2, part.size() - open - 3));
      if (!repeated) return std::nullopt;
      times = *repeated;
      part = part.substr(0, open);
    }
    const auto count = positive(part);
    constexpr std::size_t most_nodes = 65536;
    if (!count || counts.size() + static_cast<std::size_t>(times) > most_nodes) return std::nullopt;
    ranks += long{*count} * times;
    if (ranks > most_ranks) return std::nullopt;
    counts.insert(counts.end(), static_cast<std::size_t>(times), *count);
    text.remove_prefix(comma == std::string_view::npos ? text.size() : comma + 1);
  }
  return counts;
}

RankLayout lay_out(const StepShape& shape, const std::vector<int>& own_ranks) {
  RankLayout layout;
  if (shape.world_size > most_ranks) {
    layout.unknown = too_many(shape.world_size);
    return layout;
  }
  const auto hosts = expand_host_list(shape.node_list);
  const auto counts = expand_counts(shape.tasks_per_node);
  if (hosts) layout.hosts = *hosts;
  if (!hosts || hosts->empty() || !counts || counts->size() != hosts->size() ||
      std::accumulate(counts->begin(), counts->end(), 0L) != shape.world_size) {
    layout.unknown = "Slurm's list of nodes (" + shortened(shape.node_list) + ") and of tasks a node (" +
                     shortened(shape.tasks_per_node) + ") do not give " + std::to_string(shape.world_size) +
                     " ranks";
    return layout;
  }
  layout.ranks = distribute_as_requested(shape, *counts, layout.unknown);
  const auto same = [&](const auto& ranks) { return ranks == own_ranks; };
  if (!layout.ranks.empty() && std::none_of(layout.ranks.begin(), layout.ranks.end(), same)) {
    layout.ranks.clear();
    layout.unknown = "this node's ranks are not those of --distribution=" +
                     (shape.distribution.empty() ? std::string("block") : shape.distribution);
  }
  return layout;
}

std::optional<std::string> find_node_name(const std::string& node_list, std::size_t index) {
  const auto hosts = expand_host_list(node_list);
  if (!hosts || index >= hosts->size()) return std::nullopt;
  return (*hosts)[index];
}

Components find_components(const HeterogeneousStep& step) {
  const auto hosts = expand_host_list(step.whole.node_list);
  const auto counts = expand_counts(step.whole.tasks_per_node);
  if (!hosts || !counts || hosts->size() != counts->size() || step.own_group >= step.groups.size() ||
      step.groups.size() > most_groups)
    return {};
  std::map<std::string, int> tasks_on;
  for (std::size_t i = 0; i < hosts->size(); ++i) tasks_on[(*hosts)[i]] = (*counts)[i];

  Components components;
  int ranks = 0;
  for (std::size_t group = 0; group < step.groups.size(); ++group) {
    if (group == step.own_group) components.first_rank = ranks;
    StepShape shape{"", "", step.whole.distribution, step.whole.plane_size, 0};
    for (const auto& host : expand_host_list(step.groups[group]).value_or(std::vector<std::string>{})) {
      const auto at = tasks_on.find(host);
      if (at == tasks_on.end()) continue;
      // A node is in one component only, so more ranks than the step has are an error.
      if (ranks + shape.world_size + at->second > step.whole.world_size) return {};
      append(shape.node_list, host);
      append(shape.tasks_per_node, std::to_string(at->second));
      shape.world_size += at->second;
    }
    ranks += shape.world_size;
    if (shape.world_size > 0) components.shapes.push_back(shape);
  }
  return ranks == step.whole.world_size ? components : Components{};
}

RankLayout lay_out_components(const std::vector<StepShape>& components, const std::vector<int>& own_ranks) {
  RankLayout layout;
  int first = 0;
  const long all = std::accumulate(components.begin(), components.end(), 0L,
                                   [](long sum, const StepShape& shape) { return sum + shape.world_size; });
  bool known = !components.empty();
  if (!known)
    layout.unknown = "Slurm does not report the ranks of this heterogeneous step's other components";
  if (all > most_ranks) {
    layout.unknown = too_many(all);
    return layout;
  }
  for (const StepShape& shape : components) {
    const auto hosts = expand_host_list(shape.node_list).value_or(std::vector<std::string>{});
    Layout ranks = distribute_as_requested(
        shape, expand_counts(shape.tasks_per_node).value_or(std::vector<int>{}), layout.unknown);
    known = known && !ranks.empty() && ranks.size() == hosts.size();
    for (auto& on_node : ranks)
      for (int& rank : on_node) rank += first;
    layout.hosts.insert(layout.hosts.end(), hosts.begin(), hosts.end());
    layout.ranks.insert(layout.ranks.end(), ranks.begin(), ranks.end());
    first += shape.world_size;
  }
  if (known && std::find(layout.ranks.begin(), layout.ranks.end(), own_ranks) == layout.ranks.end()) {
    known = false;
    layout.unknown = "this node's ranks are not those of its heterogeneous step's distribution";
  }
  if (known) return layout;
  layout.ranks.clear();
  if (layout.unknown.empty())
    layout.unknown = "the nodes and tasks of this heterogeneous step's components do not fit each other";
  return layout;
}

}  // namespace muster::spank
