// SPDX-License-Identifier: Apache-2.0
// NCCL's topology files: <system><cpu numaid affinity><pci busid class>…, nested as the PCI switches are,
// with <gpu> or <nic><net name port/></nic> in devices that NCCL itself has looked at. Files made by hand
// (clouds) hold the classes only, and some not even these and no affinity: NCCL asks the machine for the
// rest.
#include <algorithm>
#include <cstring>
#include <pugixml.hpp>

#include "placement/topology/error.hpp"
#include "placement/topology/read.hpp"
#include "placement/topology/read_xml_text.hpp"

namespace muster::placement {

namespace {

constexpr int deepest_nesting = 32;  // PCI allows no deeper tree in practice, and the walk below recurses

/// What a file must say: all that a node needs, or where its devices are.
enum class Extent { node, locality };

struct Place {
  int domain = -1;
  PciPath path;
};

class NcclReader {
 public:
  NcclReader(std::string path, Extent extent, Node& node)
      : path_(std::move(path)), extent_(extent), node_(node) {}

  void read_system(pugi::xml_node system) {
    const std::string first_host = system.child("cpu").attribute("host_hash").value();
    for (const auto cpu : system.children("cpu")) {
      if (first_host != cpu.attribute("host_hash").value()) {
        note("the file describes several hosts; only the first is used");
        continue;
      }
      read_cpu(cpu);
    }
    if (node_.domains.empty()) fail("has no <cpu> element");
    if (extent_ == Extent::node && node_.cores.empty()) fail("has no <cpu> element with an affinity mask");
    if (extent_ == Extent::node) note_hidden_cpus(node_);
    note_other_gpus(node_, amd_gpus_);
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw Error(path_ + ": " + what + "; NCCL writes such a file when NCCL_TOPO_DUMP_FILE is set.");
  }

  void note(const std::string& text) {
    if (std::find(node_.notes.begin(), node_.notes.end(), text) == node_.notes.end())
      node_.notes.push_back(text);
  }

  void read_cpu(pugi::xml_node cpu) {
    const int id = cpu.attribute("numaid").as_int(-1);
    // NCCL writes -1 where the kernel knows of no NUMA: then it is the machine's one domain.
    NumaDomain domain;
    domain.id = std::max(id, 0);
    if (node_.find_domain(domain.id) != nullptr)
      fail("has two <cpu> elements for NUMA domain " + std::to_string(id));
    const auto affinity = cpu.attribute("affinity");
    try {
      if (affinity) domain.cpus = CpuSet::parse_mask(affinity.value());
    } catch (const Error& error) {
      fail("<cpu> element " + std::to_string(id) + ": " + error.what());
    }
    domain.cpus_hidden = !affinity;
    if (domain.cpus.intersects(node_.cpus())) fail("<cpu> elements share CPUs");
    const int package = static_cast<int>(node_.domains.size());
    for (const int number : domain.cpus.to_vector())
      node_.cores.push_back(Core{package, domain.id, CpuSet{number}});
    Place place;
    place.domain = id;
    // NCCL does not tell host bridges apart: whatever hangs on one <cpu> is one host bridge away (its PHB).
    place.path.host_bridge = "cpu" + std::to_string(domain.id);
    node_.domains.push_back(std::move(domain));
    read_children(cpu, place, 0);
  }

  void read_children(pugi::xml_node parent, const Place& place, int depth) {
    if (depth > deepest_nesting) fail("nests <pci> deeper than " + std::to_string(deepest_nesting));
    for (const auto child : parent.children()) {
      if (std::strcmp(child.name(), "pci") == 0) {
        read_pci(child, place, depth);
      } else if (std::strcmp(child.name(), "nic") == 0) {
        read_nets(child, place, std::nullopt);
      }
    }
  }

  void read_pci(pugi::xml_node pci, Place place, int depth) {
    const char* busid = pci.attribute("busid").value();
    const auto address = PciAddress::try_parse(busid);
    if (!address) fail(std::string("\"") + busid + "\" is not a PCI address (busid of a <pci> element)");
    const std::string kind = pci.attribute("class").value();
    // One <pci> bridge is a whole switch, its upstream and a downstream port; the model counts both.
    if (depth > 0) place.path.bridges.push_back(*address);
    if (kind.starts_with("0x0604") || (kind.empty() && pci.child("pci"))) {
      place.path.bridges.push_back(*address);
      read_children(pci, place, depth + 1);
    } else if (pci.child("nic")) {
      for (const auto nic : pci.children("nic")) read_nets(nic, place, *address);
    } else if (kind.starts_with("0x02")) {
      add_nameless_nic(pci, place, *address);
    } else if (kind.starts_with("0x03") || pci.child("gpu")) {
      add_gpu(pci, *address, place);
    } else if (kind.empty() && extent_ == Extent::locality) {
      add_gpu(pci, *address, place);  // either: the machine knows which
      add_nameless_nic(pci, place, *address);
    }
  }

  void add_gpu(pugi::xml_node pci, const PciAddress& address, const Place& place) {
    const std::string vendor = pci.attribute("vendor").value();
    if (vendor == "0x1002") ++amd_gpus_;
    if (!vendor.empty() && vendor != "0x10de") return;  // others are management chips
    if (node_.find_gpu(address) != nullptr) fail("lists GPU " + address.to_string() + " twice");
    Gpu gpu;
    gpu.pci = address;
    gpu.domain = place.domain;
    gpu.path = place.path;
    node_.gpus.push_back(std::move(gpu));
  }

  /// NCCL's socket transport lists interfaces, at their adapters' places, where the InfiniBand transport is
  /// not used.
  static bool is_network_interface(const std::string& name) {
    const auto is = [&](std::string_view prefix) { return name.starts_with(prefix); };
    return is("eth") || is("eno") || is("ens") || is("enp") || is("enP") || is("enx") || is("bond");
  }

  static NicKind kind_of(pugi::xml_node pci, const std::string& name) {
    const std::string vendor = pci.attribute("vendor").value();
    if (vendor == "0x1d0f") return NicKind::efa;
    if (vendor == "0x17db" || name.starts_with("cxi")) return NicKind::slingshot;
    const std::string_view kind = pci.attribute("class").value();
    if (kind.starts_with("0x0207")) return NicKind::infiniband;
    if (is_network_interface(name)) return NicKind::ethernet;
    return kind.starts_with("0x02") ? NicKind::roce
                                    : NicKind::unknown;  // ConnectX-8's DMA function is 0x0801
  }

  void add_nameless_nic(pugi::xml_node pci, const Place& place, const PciAddress& address) {
    Nic nic;
    nic.pci = address;
    nic.domain = place.domain;
    nic.path = place.path;
    nic.kind = kind_of(pci, "");
    add_nic(std::move(nic));
  }

  void read_nets(pugi::xml_node element, const Place& place, const std::optional<PciAddress>& address) {
    for (const auto net : element.children("net")) {
      Nic nic;
      nic.name = net.attribute("name").value();
      nic.port = std::max(net.attribute("port").as_int(1), 1);
      nic.pci = address;
      nic.domain = address ? place.domain
                           : -1;  // NCCL hangs a socket without a device on whichever <cpu> looked first
      if (address) nic.path = place.path;
      nic.rate_gbps = net.attribute("speed").as_int(0) / 1000;
      // What NCCL lists outside the PCI tree is one of its socket "devices": a plain network interface.
      nic.kind = address ? kind_of(element.parent(), nic.name) : NicKind::ethernet;
      // NCCL may fuse the ports of an adapter into one device, "mlx5_0+mlx5_1".
      for (std::size_t start = 0, end = 0; end < nic.name.size(); start = end + 1) {
        end = std::min(nic.name.find('+', start), nic.name.size());
        Nic one = nic;
        one.name = nic.name.substr(start, end - start);
        add_nic(std::move(one));
      }
    }
  }

  void add_nic(Nic nic) {
    for (const auto& other : node_.nics) {
      if (other.name == nic.name && other.port == nic.port && other.pci == nic.pci) return;
    }
    node_.nics.push_back(std::move(nic));
  }

  std::string path_;
  Extent extent_;
  Node& node_;
  int amd_gpus_ = 0;
};

Node read_file(const std::string& path, Extent extent) {
  pugi::xml_document document;
  const std::string text = read_xml_text(path);
  const auto result = document.load_buffer(text.data(), text.size());
  if (!result) {
    throw Error(path + ": " + result.description() + " at byte " + std::to_string(result.offset) +
                "; not a complete XML file.");
  }
  const auto system = document.child("system");
  if (!system) throw Error(path + ": not an NCCL topology file, whose root element is <system>.");
  Node node;
  node.source = path;
  NcclReader(path, extent, node).read_system(system);
  node.notes.push_back("the file does not say which CPUs share a core: each counts as one");
  finish(node);
  return node;
}

}  // namespace

Node read_nccl_xml(const std::string& path) { return read_file(path, Extent::node); }

Node read_nccl_locality(const std::string& path) { return read_file(path, Extent::locality); }

}  // namespace muster::placement
