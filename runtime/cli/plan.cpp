// SPDX-License-Identifier: Apache-2.0
#include "plan.hpp"

#include <algorithm>
#include <iostream>
#include <memory>
#include <string>

#include "machines.hpp"
#include "placement/environment/environment.hpp"
#include "placement/environment/socket_interface.hpp"
#include "placement/place/explain_placement.hpp"
#include "placement/place/place.hpp"
#include "placement/report/report.hpp"
#include "placement/report/report_json.hpp"
#include "placement/report/report_svg.hpp"
#include "placement/topology/read.hpp"
#include "text/printable.hpp"

namespace muster::cli {

namespace {

using namespace placement;

struct PlanOptions {
  std::string topology;
  std::string machine;
  std::string root = "/";
  int tasks = 0;          // 0: not given
  int gpus_per_task = 0;  // 0: not given
  int tasks_per_gpu = 1;
  std::string gpus;
  int cpus_per_task = 0;
  std::string cpus;
  bool hardware_threads = false;
  std::string format = "table";
  bool explain = false;
};

void add_once(std::vector<PciAddress>& gpus, const PciAddress& gpu) {
  if (std::find(gpus.begin(), gpus.end(), gpu) != gpus.end())
    throw Error("--gpus names the GPU " + gpu.to_string() + " twice.");
  gpus.push_back(gpu);
}

/// "0000:01:00.0,0000:41:00.0", or positions in PCI order such as "0-3,6", or both mixed.
std::vector<PciAddress> parse_gpus(const std::string& list, const Node& node) {
  std::vector<PciAddress> gpus;
  std::size_t start = 0;
  while (start <= list.size()) {
    const auto end = std::min(list.find(',', start), list.size());
    const std::string item = list.substr(start, end - start);
    start = end + 1;
    if (item.find(':') != std::string::npos) {
      add_once(gpus, PciAddress::parse(item));
      continue;
    }
    const auto positions = CpuSet::parse_list(item).value_or(CpuSet());
    if (positions.empty()) {
      throw Error("\"" + item.substr(0, 80) +
                  "\" in --gpus is neither a PCI address nor a position such as 0-3.");
    }
    for (const int position : positions.to_vector()) {
      if (position >= static_cast<int>(node.gpus.size())) {
        throw Error("--gpus names GPU " + std::to_string(position) + ", but " + host_name(node) + " has " +
                    std::to_string(node.gpus.size()) + " (counted from 0 in PCI order).");
      }
      add_once(gpus, node.gpus[static_cast<std::size_t>(position)].pci);
    }
  }
  return gpus;
}

Request make_request(const PlanOptions& options, const Node& node) {
  Request request;
  if (options.gpus.empty()) {
    for (const auto& gpu : node.gpus) request.gpus.push_back(gpu.pci);
  } else {
    request.gpus = parse_gpus(options.gpus, node);
  }
  const int gpus = static_cast<int>(request.gpus.size());
  request.gpus_per_task = options.gpus_per_task;
  request.tasks_per_gpu = options.tasks_per_gpu;
  request.tasks = options.tasks > 0
                      ? options.tasks
                      : std::max(1, gpus / std::max(1, options.gpus_per_task) * options.tasks_per_gpu);
  request.cpus_per_task = options.cpus_per_task;
  if (!options.cpus.empty()) {
    const auto cpus = CpuSet::parse_list(options.cpus);
    if (!cpus)
      throw Error("\"" + options.cpus.substr(0, 80) +
                  "\" is not a list of CPUs: write it like 0-3,8 with numbers below " +
                  std::to_string(CpuSet::limit) + ".");
    request.cpus = *cpus;
    if (request.cpus.empty()) throw Error("--cpus names no CPU: write it like 0-3,8.");
  }
  request.hardware_threads = options.hardware_threads;
  return request;
}

void print_table(const Node& node, const Placement& placement, bool explain) {
  std::cout << report_table(node_report(node, placement), explain);
  for (const auto& note : node.notes) std::cout << "note: " << printable(note) << "\n";
  if (node.gpus.empty())
    std::cout << "note: no GPU here; `muster plan --machine dgx-h100` shows a machine that has some "
                 "(--machine list names more, --topology FILE takes one of yours)\n";
}

void print_json(const Node& node, const Placement& placement, const PlanOptions& options) {
  JobFacts facts;
  if (options.topology.empty() && options.machine.empty())
    facts.socket_interface = route_interface_from_proc("", options.root);
  std::vector<std::vector<Variable>> environments;
  for (const auto& task : placement.tasks) environments.push_back(derive_environment(task, facts));
  std::cout << report_json(node, placement, environments);
}

Node read_node(const PlanOptions& options) {
  if (!options.machine.empty()) return find_machine(options.machine);
  return options.topology.empty() ? read_live(options.root) : read_topology_file(options.topology);
}

void run(const PlanOptions& options) {
  if (options.machine == "list") {
    std::cout << list_machines();
    return;
  }
  const Node node = read_node(options);
  const Placement placement = place(node, make_request(options, node));
  if (options.format == "svg")
    std::cout << report_svg(node, placement);
  else if (options.format == "json")
    print_json(node, placement, options);
  else
    print_table(node, placement, options.explain);
}

void add_input_options(CLI::App& plan, PlanOptions& options) {
  // An empty value is usually an unset shell variable, not a request for the default.
  const CLI::Validator given([](const std::string& value) { return value.empty() ? "is empty" : ""; }, "",
                             "given");
  auto* topology = plan.add_option("--topology", options.topology,
                                   "hwloc XML or NCCL topology XML of the node (default: this machine)")
                       ->type_name("FILE")
                       ->check(given);
  auto* root =
      plan.add_option("--root", options.root, "Read /sys and /proc below this folder instead (default: /)")
          ->type_name("FOLDER")
          ->excludes(topology)
          ->check(CLI::ExistingDirectory);
  plan.add_option("--machine", options.machine,
                  "A public machine by its name instead, such as dgx-h100; list names all")
      ->type_name("NAME")
      ->excludes(topology)
      ->excludes(root)
      ->check(given);
  plan.add_option(
          "--gpus", options.gpus,
          "Allotted GPUs: PCI addresses, or positions in PCI order, separated by commas (default: all)")
      ->type_name("LIST")
      ->check(given);
  plan.add_option("--cpus", options.cpus, "Allotted CPUs, like 0-15,64-79 (default: all)")
      ->type_name("LIST")
      ->check(given);
}

void add_step_options(CLI::App& plan, PlanOptions& options) {
  plan.add_option("--tasks", options.tasks,
                  "Tasks on the node (default: one for each GPU, or as the next two options say)")
      ->type_name("N")
      ->check(CLI::Range(1, 65536));
  plan.add_option("--gpus-per-task", options.gpus_per_task, "GPUs for each task (default: an equal share)")
      ->type_name("K")
      ->check(CLI::Range(1, 1024));
  plan.add_option("--tasks-per-gpu", options.tasks_per_gpu, "Tasks that may share a GPU (default: 1)")
      ->type_name("K")
      ->check(CLI::Range(1, 1024));
  plan.add_option("--cpus-per-task", options.cpus_per_task,
                  "CPUs for each task (default: as many cores as each can have near its GPU)")
      ->type_name("C")
      ->check(CLI::Range(1, 65536));
  plan.add_flag("--smt", options.hardware_threads, "Use all hardware threads of a core, not one")
      ->disable_flag_override();
}

}  // namespace

void add_plan(CLI::App& app) {
  auto options = std::make_shared<PlanOptions>();
  auto* plan =
      app.add_subcommand("plan", "Show which GPUs, CPUs, memory and NICs the tasks of a step would get");
  add_input_options(*plan, *options);
  add_step_options(*plan, *options);
  plan->add_option("--format", options->format,
                   "table, json (docs/plan-json.md) or svg, a picture (default: table)")
      ->type_name("FORMAT")
      ->check(CLI::IsMember({"table", "json", "svg"}));
  plan->add_flag("--explain", options->explain, "Print below the table why each task has its placement")
      ->disable_flag_override();
  plan->footer(
      "Nothing is changed, and no cluster is needed.\n\nExamples:\n"
      "  muster plan\n"
      "  muster plan --machine dgx-h100\n"
      "  muster plan --topology dgx.xml --tasks 8 --cpus-per-task 12 --explain\n"
      "  muster plan --topology dgx.xml --gpus 0-3 --cpus 0-31 --format svg > plan.svg");
  plan->callback([options] { run(*options); });
}

}  // namespace muster::cli
