// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <pugixml.hpp>

#include "placement/topology/error.hpp"
#include "placement/topology/read.hpp"
#include "placement/topology/xml/read_xml_text.hpp"

namespace muster::placement {

namespace {

/// True if a file without CPUs describes this machine: it lists one of its GPUs, and all its domains have
/// CPUs here.
bool describes(const Node& given, const Node& live) {
  const bool has_domains =
      std::all_of(given.domains.begin(), given.domains.end(), [&](const NumaDomain& domain) {
        const auto* here = live.find_domain(domain.id);
        return here != nullptr && !here->cpus.empty();
      });
  return has_domains && std::any_of(live.gpus.begin(), live.gpus.end(),
                                    [&](const Gpu& gpu) { return given.find_gpu(gpu.pci) != nullptr; });
}

Node read_nccl_with_machine(const std::string& path, const std::string& root) {
  const Node given = read_nccl_locality(path);
  if (!given.cores.empty()) return read_nccl_xml(path);
  Node live = read_live(root);
  if (!describes(given, live)) {
    throw Error(
        path +
        ": does not say which CPUs its NUMA domains have (no affinity in <cpu>), and this machine is not the "
        "one that it describes; plan on such a machine, which knows them.");
  }
  override_locality(live, given);
  return live;
}

}  // namespace

Node read_topology_file(const std::string& path) { return read_topology_file(path, "/"); }

Node read_topology_file(const std::string& path, const std::string& root) {
  // Only the root element's name matters here. Even a damaged file may have it; the reader then reports the
  // damage.
  const std::string text = read_xml_text(path);
  pugi::xml_document document;
  document.load_buffer(text.data(), text.size(), pugi::parse_fragment);
  if (document.child("system")) return read_nccl_with_machine(path, root);
  if (document.child("topology")) return read_hwloc_xml(path);
  throw Error(path + ": neither an hwloc XML file (<topology>) nor an NCCL topology file (<system>).");
}

}  // namespace muster::placement
