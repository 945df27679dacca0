// SPDX-License-Identifier: Apache-2.0
#include "placement/report/report_svg.hpp"

#include <algorithm>
#include <cstdio>
#include <map>

#include "host_list/fold_host_list.hpp"
#include "placement/report/gpu_nic_links.hpp"
#include "placement/report/report_legend.hpp"
#include "placement/report/svg_layout.hpp"
#include "placement/report/task_colours.hpp"
#include "svg/svg.hpp"

namespace muster::placement {

namespace {

using Metrics = SvgMetrics;
using Tasks = std::vector<int>;

constexpr double title_bottom = 74;
constexpr double least_width = 820;  // for the legend of the distances

constexpr const char* style_sheet =
    "text{font-family:'DejaVu Sans',Verdana,'Helvetica Neue',Arial,sans-serif;fill:#1f2933}\n"
    ".title{font-size:20px;font-weight:bold}.subtitle,.note{font-size:12px;fill:#52606d}\n"
    ".heading{font-size:12px;font-weight:bold}.small{font-size:10px;fill:#52606d}\n"
    ".device{font-size:11px}.label{font-size:10px;font-weight:bold}.cell{font-size:12px}\n"
    ".cpu{font-size:7px}.task{font-size:9px;font-weight:bold}\n"
    ".device,.label{stroke-width:4}.cpu,.task{stroke-width:2.6}\n"
    ".device,.label,.cpu,.task{paint-order:stroke;stroke-linejoin:round}\n"
    ".page{fill:#ffffff}.package{fill:#f3f5f7;stroke:#9aa5b1}.domain{fill:#ffffff;stroke:#9aa5b1}\n"
    ".free{fill:#e9ecef}.core{fill:none;stroke:#3e4c59}.box{fill:#ffffff;stroke:#3e4c59}\n"
    ".out{fill:#ffffff;stroke:#9aa5b1;stroke-dasharray:3 2}\n"
    ".edge{fill:none;stroke:#3e4c59;stroke-width:4}.link{fill:none;stroke-width:2.4}\n"
    ".hatch{fill:none;stroke:#ffffff;stroke-width:1.6;stroke-opacity:.6}.dot{fill:#ffffff;fill-opacity:.7}\n";

std::string describe_tasks(const Tasks& tasks) {
  return tasks.empty() ? "no task" : (tasks.size() == 1 ? "task " : "tasks ") + fold_numbers(tasks);
}

/// The tasks of each CPU, domain, GPU and NIC.
struct Owners {
  std::map<int, Tasks> cpus, domains;
  std::map<PciAddress, Tasks> gpus;
  std::map<std::string, Tasks> nics;  // by "label:port"
};

std::string nic_name(const std::string& label, int port) { return label + ":" + std::to_string(port); }

Owners find_owners(const Placement& placement) {
  Owners owners;
  for (const auto& task : placement.tasks) {
    const int rank = task.local_rank;
    for (int cpu = task.cpus.first(); cpu >= 0; cpu = task.cpus.next(cpu)) owners.cpus[cpu].push_back(rank);
    for (const int domain : task.memory) owners.domains[domain].push_back(rank);
    for (const auto& gpu : task.gpus) {
      auto& tasks = owners.gpus[gpu.pci];
      if (tasks.empty() || tasks.back() != rank) tasks.push_back(rank);
    }
    for (const auto& nic : task.nics) owners.nics[nic_name(nic.label, nic.port)].push_back(rank);
  }
  return owners;
}

template <typename Key>
const Tasks& find_tasks(const std::map<Key, Tasks>& owners, const Key& key) {
  static const Tasks none;
  const auto found = owners.find(key);
  return found == owners.end() ? none : found->second;
}

/// Style of text on these tasks' colours, readable on patterns and stripes too.
std::string text_style_on(const Tasks& tasks) {
  if (tasks.empty()) return "fill:#52606d";
  if (tasks.size() > 1) return "fill:#000000;stroke:#ffffff";
  return "fill:" + text_colour_on(tasks.front()) + ";stroke:" + task_colour(tasks.front());
}

std::string describe_memory(const NumaDomain& domain) {
  if (!domain.memory_bytes) return "memory";
  char text[32];
  std::snprintf(text, sizeof text, "%.0f GiB", static_cast<double>(*domain.memory_bytes) / (1 << 30));
  return text;
}

/// Draws the picture.
class Picture {
 public:
  Picture(const Node& node, const Placement& placement)
      : node_(node),
        placement_(placement),
        owners_(find_owners(placement)),
        layout_(lay_out(node, title_bottom)) {}

  std::string draw();

 private:
  void draw_domain(const DomainView& view);
  void draw_core(const DomainView& view, std::size_t core);
  void draw_memory(const Box& box, const NumaDomain& domain);
  void draw_device(const Box& box, const std::string& name, const Tasks& tasks, const std::string& note,
                   const std::string& tip);
  void draw_links();
  void draw_link(const Box& gpu, std::size_t gpu_row, const Box& nic, std::size_t nic_row, int task);
  /// Fills a box with the colours of its tasks, side by side if there are several.
  void fill(const Box& box, const Tasks& tasks, const std::string& tip);

  const Node& node_;
  const Placement& placement_;
  Owners owners_;
  SvgLayout layout_;
  Svg svg_;
  int gutters_ = 0;
};

void Picture::fill(const Box& box, const Tasks& tasks, const std::string& tip) {
  constexpr std::size_t most = 8;
  const std::size_t stripes = std::min(tasks.size(), most);
  const double width = box.width / static_cast<double>(std::max<std::size_t>(stripes, 1));
  for (std::size_t i = 0; i < stripes; ++i)
    svg_.rectangle({box.x + static_cast<double>(i) * width, box.y, width, box.height}, "",
                   task_fill(tasks[i]), tip);
  if (tasks.empty()) svg_.rectangle(box, "free", "", tip);
}

void Picture::draw_core(const DomainView& view, std::size_t core) {
  const auto cpus = view.cores[core]->cpus.to_vector();
  for (std::size_t thread = 0; thread < cpus.size(); ++thread) {
    const Box box = layout_.thread_box(view, core, thread);
    const auto& tasks = find_tasks(owners_.cpus, cpus[thread]);
    const std::string cpu = std::to_string(cpus[thread]);
    fill(box, tasks, tasks.size() > 1 ? "CPU " + cpu + ": " + describe_tasks(tasks) : "");
    const std::string colour = text_style_on(tasks);
    svg_.text(box.x + 2.5, box.y + 8, cpu, "cpu", "start", colour);
    if (tasks.empty()) continue;
    std::string label(1, tasks.size() == 1 ? 'T' : 'x');
    label += std::to_string(tasks.size() == 1 ? static_cast<std::size_t>(tasks.front()) : tasks.size());
    svg_.text(box.right() - 2.5, box.bottom() - 3, label, "task", "end", colour);
  }
  const int threads = static_cast<int>(cpus.size());
  Box outline = layout_.core_box(view, core);
  outline.width = (threads + 1) / 2 * Metrics::thread_width;
  outline.height = std::min(threads, 2) * Metrics::thread_height;
  svg_.rectangle(outline, "core");
}

void Picture::draw_memory(const Box& box, const NumaDomain& domain) {
  const auto& tasks = find_tasks(owners_.domains, domain.id);
  const std::string of_tasks = tasks.empty() ? "" : " of " + describe_tasks(tasks);
  std::string words = describe_memory(domain) + of_tasks;
  if (text_width(words, 10) > box.width - 14) words = describe_memory(domain);
  constexpr double swatch = 8;
  fill({box.x, box.y, swatch, box.height}, tasks, "");
  svg_.rectangle(box, "core", "", describe_memory(domain) + of_tasks);
  svg_.text(box.x + swatch + 5, box.y + 12, words, "small");
}

void Picture::draw_device(const Box& box, const std::string& name, const Tasks& tasks,
                          const std::string& note, const std::string& tip) {
  if (tasks.empty()) {
    svg_.rectangle(box, note.empty() ? "box" : "out", "", tip);
  } else {
    fill(box, tasks, tip);
    svg_.rectangle(box, "core", "", tip);
  }
  const std::string colour = text_style_on(tasks);
  svg_.text(box.centre(), box.y + 15, name, "device", "middle", colour);
  std::string below = tasks.empty() ? (note.empty() ? "no task" : note) : describe_tasks(tasks);
  if (text_width(below, 10) > box.width - 4) below = std::to_string(tasks.size()) + " tasks";
  svg_.text(box.centre(), box.y + 29, below, "label", "middle", colour);
}

void Picture::draw_domain(const DomainView& view) {
  svg_.rectangle(view.box, "domain");
  const double x = view.box.x + Metrics::gap;
  const std::string title = view.domain ? "NUMA " + std::to_string(view.domain->id) : "locality unknown";
  svg_.text(x, view.box.y + 18, title, "heading");
  if (view.domain)
    draw_memory({x, view.box.y + Metrics::title_height + 4, view.box.width - 2 * Metrics::gap, 17},
                *view.domain);
  for (std::size_t i = 0; i < view.cores.size(); ++i) draw_core(view, i);
  for (std::size_t i = 0; i < view.gpus.size(); ++i) {
    const auto& gpu = *view.gpus[i];
    const std::string tip = gpu.model.empty() ? gpu.uuid : gpu.model + " " + gpu.uuid;
    draw_device(layout_.gpu_box(view, i), gpu.pci.to_string(), find_tasks(owners_.gpus, gpu.pci), "", tip);
  }
  for (std::size_t i = 0; i < view.nics.size(); ++i) {
    const auto& nic = *view.nics[i];
    const std::string name = nic_name(nic.label(), nic.port);
    draw_device(layout_.nic_box(view, i), name, find_tasks(owners_.nics, name), nic.usable ? "" : "left out",
                nic.reason);
  }
}

void Picture::draw_link(const Box& gpu, std::size_t gpu_row, const Box& nic, std::size_t nic_row, int task) {
  const double from = gpu.bottom() + Metrics::distance_height;
  if (gpu_row == nic_row) {
    svg_.curve(gpu.centre(), from, nic.centre(), nic.y, task_colour(task));
    return;
  }
  // Between rows: along the picture's left edge, each link in a lane of its own.
  const double lane = 6.0 + 5.0 * (gutters_ % 8);
  const double edge = 4.0 + 3.0 * (gutters_ % 8);
  ++gutters_;
  svg_.lines({{gpu.centre(), from},
              {gpu.centre(), from + lane},
              {edge, from + lane},
              {edge, nic.y - lane},
              {nic.centre(), nic.y - lane},
              {nic.centre(), nic.y}},
             task_colour(task));
}

void Picture::draw_links() {
  std::map<const Gpu*, std::pair<Box, std::size_t>> gpus;
  std::map<const Nic*, std::pair<Box, std::size_t>> nics;
  for (const auto& view : layout_.domains) {
    for (std::size_t i = 0; i < view.gpus.size(); ++i)
      gpus[view.gpus[i]] = {layout_.gpu_box(view, i), view.row};
    for (std::size_t i = 0; i < view.nics.size(); ++i)
      nics[view.nics[i]] = {layout_.nic_box(view, i), view.row};
  }
  std::map<const Gpu*, Distance> shortest;
  for (const auto& task : placement_.tasks) {
    for (const auto& link : find_links(node_, task)) {
      const auto& [gpu_box, gpu_row] = gpus.at(link.gpu);
      const auto& [nic_box, nic_row] = nics.at(link.nic);
      draw_link(gpu_box, gpu_row, nic_box, nic_row, task.local_rank);
      auto& distance = shortest.try_emplace(link.gpu, link.distance).first->second;
      distance = std::min(distance, link.distance);
    }
  }
  for (const auto& [gpu, distance] : shortest) {
    const Box& box = gpus.at(gpu).first;
    svg_.text(box.centre(), box.bottom() + 12, to_string(distance), "small", "middle");
  }
}

std::string Picture::draw() {
  for (const auto& package : layout_.packages) {
    svg_.rectangle(package.box, "package");
    const std::string title = package.package < 0 ? "devices" : "Package " + std::to_string(package.package);
    svg_.text(package.box.x + Metrics::gap, package.box.y + 18, title, "heading");
  }
  for (const auto& view : layout_.domains) {
    svg_.begin_group(view.domain ? "numa-" + std::to_string(view.domain->id) : "unknown");
    draw_domain(view);
    svg_.end_group();
  }
  for (std::size_t i = 0; i < layout_.memory_only.size(); ++i) {
    const auto& domain = *layout_.memory_only[i];
    const Box& box = layout_.memory_only_boxes[i];
    if (i == 0) svg_.text(box.x, box.y - 8, "NUMA domains without CPUs", "heading");
    svg_.rectangle(box, "out");
    svg_.text(box.x + 8, box.y + 16,
              "NUMA " + std::to_string(domain.id) + (domain.gpu_memory ? ": GPU memory" : ": ") +
                  (domain.gpu_memory ? "" : describe_memory(domain)),
              "small");
  }
  draw_links();

  const NodeReport report = node_report(node_, placement_);
  const Box legend = draw_legend(svg_, report, Metrics::margin, layout_.bottom);
  const double width =
      std::max({least_width, layout_.right + Metrics::margin, legend.right() + Metrics::margin});
  const PictureTitle title = make_title(node_, placement_);
  Svg page;
  page.rectangle({0, 0, width, legend.bottom() + Metrics::margin}, "page");
  page.text(Metrics::margin, 36, title.line, "title");
  page.text(Metrics::margin, 57, title.details, "subtitle");
  page.append(svg_);
  return page.document(width, legend.bottom() + Metrics::margin, title.line,
                       pattern_definitions(static_cast<int>(placement_.tasks.size())), style_sheet);
}

}  // namespace

std::string report_svg(const Node& node, const Placement& placement) {
  return Picture(node, placement).draw();
}

}  // namespace muster::placement
