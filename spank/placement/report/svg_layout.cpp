// SPDX-License-Identifier: Apache-2.0
#include "placement/report/svg_layout.hpp"

#include <algorithm>
#include <cmath>
#include <map>

namespace muster::placement {

namespace {

using Metrics = SvgMetrics;

constexpr double widest_row = 1640;
constexpr double device_padding = 18;
constexpr int most_columns = 24;

double strip_width(std::size_t count, double width) {
  if (count == 0) return 0;
  return static_cast<double>(count) * width + static_cast<double>(count - 1) * Metrics::small_gap;
}

/// A core's hardware threads are drawn in columns of two.
int thread_columns(int threads) { return (threads + 1) / 2; }

double core_width(int threads) { return thread_columns(threads) * Metrics::thread_width; }

double core_height(int threads) { return std::min(threads, 2) * Metrics::thread_height; }

double header_height() { return Metrics::title_height + Metrics::memory_height + Metrics::gap; }

/// Cores side by side: as many as fit above the devices, or as many as give a field 1.2 times as high as
/// wide.
int columns_for(const DomainView& view, const SvgLayout& layout) {
  const double pitch = core_width(layout.threads) + Metrics::small_gap;
  const double height = core_height(layout.threads) + Metrics::small_gap;
  const int count = static_cast<int>(view.cores.size());
  if (count == 0) return 1;
  const double devices = std::max(strip_width(view.gpus.size(), layout.gpu_width),
                                  strip_width(view.nics.size(), layout.nic_width));
  const int below = static_cast<int>((devices + Metrics::small_gap) / pitch);
  const int field = static_cast<int>(std::ceil(std::sqrt(count * height / pitch / 1.2)));
  const int most = std::clamp(std::max(below, field), 1, std::min(count, most_columns));
  const int lines = (count + most - 1) / most;
  return (count + lines - 1) / lines;
}

double inner_width(const DomainView& view, const SvgLayout& layout) {
  constexpr double least = 138;  // the title and the memory's line
  return std::max({least, strip_width(view.gpus.size(), layout.gpu_width),
                   strip_width(view.nics.size(), layout.nic_width),
                   view.columns * (core_width(layout.threads) + Metrics::small_gap) - Metrics::small_gap});
}

double cores_height(const DomainView& view, int threads) {
  const int count = static_cast<int>(view.cores.size());
  const int lines = (count + view.columns - 1) / view.columns;
  return lines * (core_height(threads) + Metrics::small_gap);
}

/// Every domain that has cores or devices, by package and number; devices of unknown locality come last.
std::vector<DomainView> make_views(const Node& node) {
  std::map<int, DomainView> by_domain;
  for (const auto& core : node.cores) {
    auto& view = by_domain[core.domain];
    if (view.cores.empty()) view.package = core.package;
    view.cores.push_back(&core);
  }
  const auto find_view = [&](int domain) -> DomainView& {
    return by_domain[node.find_domain(domain) ? domain : -1];
  };
  for (const auto& gpu : node.gpus) find_view(gpu.domain).gpus.push_back(&gpu);
  for (const auto& nic : node.nics) find_view(nic.domain).nics.push_back(&nic);
  std::vector<DomainView> views;
  for (auto& [id, view] : by_domain) {
    view.domain = node.find_domain(id);
    views.push_back(std::move(view));
  }
  std::stable_sort(views.begin(), views.end(), [](const auto& a, const auto& b) {
    const auto order = [](const DomainView& view) { return static_cast<unsigned>(view.package); };  // -1 last
    return order(a) < order(b);
  });
  return views;
}

void measure_devices(const Node& node, SvgLayout& layout) {
  constexpr double font = 11;
  for (const auto& gpu : node.gpus)
    layout.gpu_width = std::max(layout.gpu_width, text_width(gpu.pci.to_string(), font) + device_padding);
  for (const auto& nic : node.nics)
    layout.nic_width = std::max(
        layout.nic_width, text_width(nic.label() + ":" + std::to_string(nic.port), font) + device_padding);
  layout.nic_width = std::max(layout.nic_width, node.nics.empty() ? 0.0 : 72.0);
  for (const auto& core : node.cores) layout.threads = std::max(layout.threads, core.cpus.size());
}

/// The x of the first of `count` boxes that are centred in a domain.
double centred(const DomainView& view, std::size_t count, double width) {
  return view.box.centre() - strip_width(count, width) / 2;
}

/// Places the domains [first, last), which have their x and width, in one row; returns its lower edge.
double place_row(SvgLayout& layout, std::size_t first, std::size_t last, double y) {
  double cores = 0;
  bool gpus = false, nics = false;
  for (std::size_t i = first; i < last; ++i) {
    cores = std::max(cores, cores_height(layout.domains[i], layout.threads));
    gpus = gpus || !layout.domains[i].gpus.empty();
    nics = nics || !layout.domains[i].nics.empty();
  }
  DomainRow row;
  const double top = y + Metrics::title_height + 4;  // below the package's title
  row.cores_y = top + header_height();
  row.gpus_y = row.cores_y + cores + (gpus ? Metrics::small_gap : 0);
  row.lane_y = row.gpus_y + (gpus ? Metrics::device_height + (nics ? Metrics::distance_height : 0) : 0);
  row.nics_y = row.lane_y + (nics ? (gpus ? Metrics::lane_height : Metrics::small_gap) : 0);
  const double bottom = row.nics_y + (nics ? Metrics::device_height : 0) + Metrics::gap;
  for (std::size_t i = first; i < last; ++i) {
    auto& view = layout.domains[i];
    view.row = layout.rows.size();
    view.box.y = top;
    view.box.height = bottom - top;
    if (i > first && view.package == layout.domains[i - 1].package) {
      layout.packages.back().box.width = view.box.right() + Metrics::gap - layout.packages.back().box.x;
    } else {
      layout.packages.push_back(
          {view.package,
           {view.box.x - Metrics::gap, y, view.box.width + 2 * Metrics::gap, bottom - y + Metrics::gap}});
    }
  }
  layout.rows.push_back(row);
  return bottom + 2 * Metrics::gap;
}

double place_memory_only(SvgLayout& layout, double y) {
  const double width = std::max(layout.right, 4 * Metrics::chip_width);
  double x = Metrics::margin;
  y += Metrics::title_height;
  for (std::size_t i = 0; i < layout.memory_only.size(); ++i) {
    if (x + Metrics::chip_width > width && x > Metrics::margin) {
      x = Metrics::margin;
      y += Metrics::title_height + 2 * Metrics::small_gap;
    }
    layout.memory_only_boxes.push_back({x, y, Metrics::chip_width, Metrics::title_height + 2});
    layout.right = std::max(layout.right, x + Metrics::chip_width);
    x += Metrics::chip_width + Metrics::small_gap;
  }
  return y + Metrics::title_height + 2 * Metrics::gap;
}

}  // namespace

Box SvgLayout::core_box(const DomainView& view, std::size_t core) const {
  const auto columns = static_cast<std::size_t>(view.columns);
  const double width = core_width(threads), height = core_height(threads);
  return {centred(view, columns, width) + static_cast<double>(core % columns) * (width + Metrics::small_gap),
          rows[view.row].cores_y + static_cast<double>(core / columns) * (height + Metrics::small_gap), width,
          height};
}

Box SvgLayout::thread_box(const DomainView& view, std::size_t core, std::size_t thread) const {
  const Box outer = core_box(view, core);
  return {outer.x + static_cast<double>(thread / 2) * Metrics::thread_width,
          outer.y + static_cast<double>(thread % 2) * Metrics::thread_height, Metrics::thread_width,
          Metrics::thread_height};
}

Box SvgLayout::gpu_box(const DomainView& view, std::size_t gpu) const {
  return {centred(view, view.gpus.size(), gpu_width) +
              static_cast<double>(gpu) * (gpu_width + Metrics::small_gap),
          rows[view.row].gpus_y, gpu_width, Metrics::device_height};
}

Box SvgLayout::nic_box(const DomainView& view, std::size_t nic) const {
  return {centred(view, view.nics.size(), nic_width) +
              static_cast<double>(nic) * (nic_width + Metrics::small_gap),
          rows[view.row].nics_y, nic_width, Metrics::device_height};
}

SvgLayout lay_out(const Node& node, double top) {
  SvgLayout layout;
  measure_devices(node, layout);
  layout.domains = make_views(node);
  std::size_t first = 0;
  double x = Metrics::margin + Metrics::gap, y = top;
  for (std::size_t i = 0; i < layout.domains.size(); ++i) {
    auto& view = layout.domains[i];
    view.columns = columns_for(view, layout);
    const double width = inner_width(view, layout) + 2 * Metrics::gap;
    if (i > first) {
      x += view.package == layout.domains[i - 1].package ? 0 : 2 * Metrics::gap;
      if (x + width > widest_row) {
        y = place_row(layout, first, i, y);
        first = i;
        x = Metrics::margin + Metrics::gap;
      }
    }
    view.box = {x, 0, width, 0};
    layout.right = std::max(layout.right, view.box.right() + Metrics::gap);
    x = view.box.right() + Metrics::gap;
  }
  if (!layout.domains.empty()) y = place_row(layout, first, layout.domains.size(), y);
  for (const auto& domain : node.domains)
    if (std::none_of(layout.domains.begin(), layout.domains.end(),
                     [&](const auto& view) { return view.domain == &domain; }))
      layout.memory_only.push_back(&domain);
  layout.bottom = layout.memory_only.empty() ? y : place_memory_only(layout, y);
  return layout;
}

}  // namespace muster::placement
