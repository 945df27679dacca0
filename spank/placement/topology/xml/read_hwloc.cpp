// SPDX-License-Identifier: Apache-2.0
#include <hwloc.h>

#include <algorithm>
#include <memory>
#include <tuple>

#include "placement/topology/error.hpp"
#include "placement/topology/live/sysfs.hpp"
#include "placement/topology/read.hpp"
#include "placement/topology/xml/check_hwloc_xml.hpp"
#include "placement/topology/xml/read_hwloc_devices.hpp"
#include "placement/topology/xml/read_xml_text.hpp"

namespace muster::placement {

namespace {

using Topology = std::unique_ptr<hwloc_topology, decltype(&hwloc_topology_destroy)>;

/// An hwloc topology that is ready to load.
Topology make_topology() {
  hwloc_topology_t raw = nullptr;
  if (hwloc_topology_init(&raw) != 0) throw Error("hwloc cannot be initialised: out of memory?");
  Topology topology(raw, &hwloc_topology_destroy);
  hwloc_topology_set_io_types_filter(raw, HWLOC_TYPE_FILTER_KEEP_ALL);
  // These components start GPU drivers, which takes seconds and may hang; the PCI bus has all that Muster
  // needs. "pci" reads the bus through libpciaccess, which leaks memory; without it hwloc reads sysfs itself.
  for (const char* component : {"pci", "gl", "opencl", "cuda", "nvml", "rsmi", "levelzero"}) {
    hwloc_topology_set_components(raw, HWLOC_TOPOLOGY_COMPONENTS_FLAG_BLACKLIST, component);
  }
  return topology;
}

CpuSet to_cpu_set(hwloc_const_bitmap_t bitmap) {
  CpuSet set;
  if (bitmap == nullptr) return set;
  for (int cpu = hwloc_bitmap_first(bitmap); cpu >= 0 && cpu < CpuSet::limit;
       cpu = hwloc_bitmap_next(bitmap, cpu)) {
    set.add(cpu);
  }
  return set;
}

bool is_gpu_memory(hwloc_obj_t object) {
  return object->subtype != nullptr && std::string(object->subtype) == "GPUMemory";
}

/// The NUMA object that is a core's own memory: the one that serves the fewest cores. If several serve the
/// same cores, a GPU's memory comes last; among the others, the lowest number is the ordinary memory.
hwloc_obj_t own_domain(hwloc_topology_t topology, hwloc_const_bitmap_t cpus) {
  hwloc_obj_t best = nullptr;
  for (hwloc_obj_t object = nullptr;
       (object = hwloc_get_next_obj_by_type(topology, HWLOC_OBJ_NUMANODE, object)) != nullptr;) {
    if (!hwloc_bitmap_isincluded(cpus, object->cpuset)) continue;
    const auto rank = [](hwloc_obj_t o) {
      return std::tuple(is_gpu_memory(o), hwloc_bitmap_weight(o->cpuset), o->os_index);
    };
    if (best == nullptr || rank(object) < rank(best)) best = object;
  }
  return best;
}

/// True for a processor's domain whose CPUs the export leaves out: the domain or its parent had CPUs. If
/// several domains belong to the same processor, only the first that is not a GPU's counts.
bool has_hidden_cpus(hwloc_obj_t object) {
  const auto is_empty = [](hwloc_const_bitmap_t set) {
    return set == nullptr || hwloc_bitmap_iszero(set) != 0;
  };
  const hwloc_obj_t above = object->parent;
  if (is_gpu_memory(object) || !is_empty(object->cpuset) || above == nullptr) return false;
  if (is_empty(object->complete_cpuset) && !is_empty(above->cpuset)) return false;
  for (hwloc_obj_t other = above->memory_first_child; other != nullptr; other = other->next_sibling) {
    const bool is_before = other->type == HWLOC_OBJ_NUMANODE && other->os_index < object->os_index;
    if (is_before && is_empty(other->cpuset) && !is_gpu_memory(other)) return false;
  }
  return true;
}

void read_domains(hwloc_topology_t topology, Node& node) {
  for (hwloc_obj_t object = nullptr;
       (object = hwloc_get_next_obj_by_type(topology, HWLOC_OBJ_NUMANODE, object)) != nullptr;) {
    NumaDomain domain;
    domain.id = static_cast<int>(object->os_index);
    domain.memory_bytes = object->attr->numanode.local_memory;
    domain.gpu_memory = is_gpu_memory(object);
    domain.cpus_hidden = has_hidden_cpus(object);
    node.domains.push_back(std::move(domain));
  }
  // Some old exports have no memory sizes; hwloc then reports 0 for every domain.
  const bool has_memory_sizes =
      std::any_of(node.domains.begin(), node.domains.end(),
                  [](const NumaDomain& domain) { return domain.memory_bytes.value_or(0) > 0; });
  for (auto& domain : node.domains) {
    if (!has_memory_sizes) domain.memory_bytes.reset();
  }
}

/// Reads the operating system's distances, if they cover all domains.
void read_distances(hwloc_topology_t topology, Node& node) {
  unsigned count = 1;
  hwloc_distances_s* distances = nullptr;
  if (hwloc_distances_get_by_name(topology, "NUMALatency", &count, &distances, 0) != 0 || count < 1) return;
  const auto size = static_cast<std::size_t>(distances->nbobjs);
  if (size == node.domains.size()) {
    for (std::size_t i = 0; i < size; ++i) {
      for (std::size_t j = 0; j < size; ++j) {
        const auto at = [&](std::size_t k) {
          return std::find_if(node.domains.begin(), node.domains.end(), [&](const NumaDomain& domain) {
            return distances->objs[k] != nullptr &&
                   domain.id == static_cast<int>(distances->objs[k]->os_index);
          });
        };
        const auto row = at(i);
        const auto column = at(j);
        if (row == node.domains.end() || column == node.domains.end()) continue;
        row->distances.resize(size, 20);
        row->distances[static_cast<std::size_t>(column - node.domains.begin())] =
            static_cast<int>(distances->values[i * size + j]);
      }
    }
  }
  hwloc_distances_release(topology, distances);
}

/// Adds, without memory, the domain of a core that has none in the topology: the exporting process was not
/// allowed to use its memory. Returns the domain's id.
int add_hidden_domain(hwloc_topology_t topology, hwloc_obj_t core, Node& node) {
  int id = -1;
  for (hwloc_obj_t above = core; above != nullptr && id < 0; above = above->parent) {
    if (above->complete_nodeset == nullptr) continue;
    for (id = hwloc_bitmap_first(above->complete_nodeset); id >= 0;
         id = hwloc_bitmap_next(above->complete_nodeset, id)) {
      const auto shown = hwloc_get_numanode_obj_by_os_index(topology, static_cast<unsigned>(id));
      if (shown == nullptr) break;
    }
  }
  if (id < 0 || id >= CpuSet::limit) return node.domains.empty() ? -1 : node.domains.front().id;
  if (node.find_domain(id) == nullptr) {
    NumaDomain domain;
    domain.id = id;
    domain.memory_bytes = 0;
    node.domains.push_back(std::move(domain));
    node.notes.push_back("NUMA domain " + std::to_string(id) +
                         " was hidden from the process that exported the file: its memory is not used");
  }
  return id;
}

void read_cores(hwloc_topology_t topology, Node& node) {
  // An export without core objects (from a virtual machine, or filtered) still has hardware threads.
  const bool has_cores = hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_CORE) > 0;
  const auto type = has_cores ? HWLOC_OBJ_CORE : HWLOC_OBJ_PU;
  for (hwloc_obj_t object = nullptr;
       (object = hwloc_get_next_obj_by_type(topology, type, object)) != nullptr;) {
    Core core;
    core.cpus = to_cpu_set(object->cpuset);
    if (core.cpus.empty()) continue;
    const auto package = hwloc_get_ancestor_obj_by_type(topology, HWLOC_OBJ_PACKAGE, object);
    core.package = package != nullptr ? static_cast<int>(package->os_index) : 0;
    const auto own = own_domain(topology, object->cpuset);
    core.domain =
        own != nullptr ? static_cast<int>(own->os_index) : add_hidden_domain(topology, object, node);
    for (auto& domain : node.domains) {
      if (domain.id == core.domain) domain.cpus |= core.cpus;
    }
    node.cores.push_back(std::move(core));
  }
}

Node to_node(hwloc_topology_t topology, std::string source) {
  Node node;
  node.source = std::move(source);
  if (const char* host = hwloc_obj_get_info_by_name(hwloc_get_root_obj(topology), "HostName"))
    node.host = host;
  read_domains(topology, node);
  read_distances(topology, node);
  read_cores(topology, node);
  const bool all_placed =
      std::all_of(node.cores.begin(), node.cores.end(), [](const Core& core) { return core.domain >= 0; });
  if (node.cores.empty() || node.domains.empty() || !all_placed) {
    throw Error(
        node.source +
        ": the topology has no cores, or cores without a NUMA domain; export it anew with lstopo --of xml.");
  }
  read_hwloc_devices(topology, node);
  note_hidden_cpus(node);
  finish(node);
  return node;
}

}  // namespace

Node read_hwloc_xml(const std::string& path) {
  const std::string text = read_xml_text(path);
  check_hwloc_xml(path, text, HWLOC_API_VERSION >> 16);
  const Topology topology = make_topology();
  // The whole machine, not only what the exporting process was allowed to use.
  hwloc_topology_set_flags(topology.get(), HWLOC_TOPOLOGY_FLAG_INCLUDE_DISALLOWED);
  const int size = static_cast<int>(text.size() + 1);  // includes the final zero; read_xml_text() limits it
  if (hwloc_topology_set_xmlbuffer(topology.get(), text.c_str(), size) != 0 ||
      hwloc_topology_load(topology.get()) != 0) {
    throw Error(path + ": not an hwloc XML file that hwloc " + std::to_string(HWLOC_API_VERSION >> 16) +
                " can read; export one with lstopo --of xml.");
  }
  try {
    return to_node(topology.get(), path);
  } catch (const std::logic_error&) {  // from std::stoul() on a LID
    throw Error(path + ": a port's LID is not a number; export the file anew with lstopo --of xml.");
  }
}

Node read_hwloc_live() {
  const Topology topology = make_topology();
  if (hwloc_topology_load(topology.get()) != 0)
    throw Error("hwloc cannot read this machine; is /sys mounted?");
  return to_node(topology.get(), "live (hwloc)");
}

}  // namespace muster::placement
