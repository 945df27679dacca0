// SPDX-License-Identifier: Apache-2.0
// NCCL's topology files: <system><cpu numaid affinity><pci busid class>…, nested like the PCI switches.
// Devices that NCCL itself examined contain <gpu> or <nic><net name port/></nic>. Hand-written files (of
// clouds) have only the classes, and some have neither classes nor affinity: NCCL reads the rest from the
// machine.
#include <algorithm>
#include <cstring>
#include <pugixml.hpp>

#include "placement/topology/error.hpp"
#include "placement/topology/read.hpp"
#include "placement/topology/xml/read_xml_text.hpp"

namespace muster::placement {

namespace {

constexpr int deepest_nesting = 32;  // real PCI trees are not deeper, and the walk below recurses

/// What a file must contain: a whole node, or only the locality of its devices.
enum class Extent { node, locality };

struct DevicePosition {
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
    note_amd_gpus(node_, amd_gpus_);
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
    // NCCL writes -1 on kernels without NUMA: the machine then has one domain.
    NumaDomain domain;
    domain.id = std::max(id, 0);
    if (node_.find_domain(domain.id) != nullptr)
      fail("has two <cpu> elements for NUMA domain " + std::to_string(id));
    const auto affinity = cpu.attribute("affinity");
    const auto cpus = CpuSet::parse_mask(affinity.value());
    if (affinity && !cpus)
      fail("<cpu> element " + std::to_string(id) + ": \"" + std::string(affinity.value()).substr(0, 80) +
           "\" is not a CPU mask: write it like 00000000,0000ffff.");
    if (affinity) domain.cpus = *cpus;
    domain.cpus_hidden = !affinity;
    if (domain.cpus.intersects(node_.cpus())) fail("<cpu> elements share CPUs");
    const int package = static_cast<int>(node_.domains.size());
    for (const int number : domain.cpus.to_vector())
      node_.cores.push_back(Core{package, domain.id, CpuSet{number}});
    DevicePosition position;
    position.domain = id;
    // NCCL does not distinguish host bridges: everything below one <cpu> shares a host bridge (its PHB).
    position.path.host_bridge = "cpu" + std::to_string(domain.id);
    node_.domains.push_back(std::move(domain));
    read_children(cpu, position, 0);
  }

  void read_children(pugi::xml_node parent, const DevicePosition& position, int depth) {
    if (depth > deepest_nesting) fail("nests <pci> deeper than " + std::to_string(deepest_nesting));
    for (const auto child : parent.children()) {
      if (std::strcmp(child.name(), "pci") == 0) {
        read_pci(child, position, depth);
      } else if (std::strcmp(child.name(), "nic") == 0) {
        read_ports(child, position, std::nullopt);
      }
    }
  }

  void read_pci(pugi::xml_node pci, DevicePosition position, int depth) {
    const char* busid = pci.attribute("busid").value();
    const auto address = PciAddress::try_parse(busid);
    if (!address) fail(std::string("\"") + busid + "\" is not a PCI address (busid of a <pci> element)");
    const std::string kind = pci.attribute("class").value();
    // One <pci> bridge is a whole switch; Node counts its upstream and a downstream port.
    if (depth > 0) position.path.bridges.push_back(*address);
    if (kind.starts_with("0x0604") || (kind.empty() && pci.child("pci"))) {
      position.path.bridges.push_back(*address);
      read_children(pci, position, depth + 1);
    } else if (pci.child("nic")) {
      for (const auto nic : pci.children("nic")) read_ports(nic, position, *address);
    } else if (kind.starts_with("0x02")) {
      add_unnamed_nic(pci, position, *address);
    } else if (kind.starts_with("0x03") || pci.child("gpu")) {
      add_gpu(pci, *address, position);
    } else if (kind.empty() && extent_ == Extent::locality) {
      add_gpu(pci, *address, position);  // GPU or NIC: override_locality() uses the one that exists
      add_unnamed_nic(pci, position, *address);
    }
  }

  void add_gpu(pugi::xml_node pci, const PciAddress& address, const DevicePosition& position) {
    const std::string vendor = pci.attribute("vendor").value();
    if (vendor == "0x1002") ++amd_gpus_;
    if (!vendor.empty() && vendor != "0x10de")
      return;  // display controllers of other vendors are management chips
    if (node_.find_gpu(address) != nullptr) fail("lists GPU " + address.to_string() + " twice");
    Gpu gpu;
    gpu.pci = address;
    gpu.domain = position.domain;
    gpu.path = position.path;
    node_.gpus.push_back(std::move(gpu));
  }

  /// Without the InfiniBand transport, NCCL lists network interfaces at their adapters' position.
  static bool is_network_interface(const std::string& name) {
    const auto is = [&](std::string_view prefix) { return name.starts_with(prefix); };
    return is("eth") || is("eno") || is("ens") || is("enp") || is("enP") || is("enx") || is("bond");
  }

  static NicKind nic_kind(pugi::xml_node pci, const std::string& name) {
    const std::string vendor = pci.attribute("vendor").value();
    if (vendor == "0x1d0f") return NicKind::efa;
    if (vendor == "0x17db" || name.starts_with("cxi")) return NicKind::slingshot;
    const std::string_view kind = pci.attribute("class").value();
    if (kind.starts_with("0x0207")) return NicKind::infiniband;
    if (is_network_interface(name)) return NicKind::ethernet;
    return kind.starts_with("0x02") ? NicKind::roce
                                    : NicKind::unknown;  // ConnectX-8's DMA function is 0x0801
  }

  void add_unnamed_nic(pugi::xml_node pci, const DevicePosition& position, const PciAddress& address) {
    Nic nic;
    nic.pci = address;
    nic.domain = position.domain;
    nic.path = position.path;
    nic.kind = nic_kind(pci, "");
    add_nic(std::move(nic));
  }

  void read_ports(pugi::xml_node element, const DevicePosition& position,
                  const std::optional<PciAddress>& address) {
    for (const auto net : element.children("net")) {
      Nic nic;
      nic.name = net.attribute("name").value();
      nic.port = std::max(net.attribute("port").as_int(1), 1);
      nic.pci = address;
      // NCCL attaches a socket without a device to an arbitrary <cpu>.
      nic.domain = address ? position.domain : -1;
      if (address) nic.path = position.path;
      nic.rate_gbps = net.attribute("speed").as_int(0) / 1000;
      // Outside the PCI tree NCCL lists only its socket "devices": plain network interfaces.
      nic.kind = address ? nic_kind(element.parent(), nic.name) : NicKind::ethernet;
      // NCCL may merge the ports of an adapter into one device, "mlx5_0+mlx5_1".
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
  node.notes.emplace_back("the file does not say which CPUs share a core: each counts as one");
  finish(node);
  return node;
}

}  // namespace

Node read_nccl_xml(const std::string& path) { return read_file(path, Extent::node); }

Node read_nccl_locality(const std::string& path) { return read_file(path, Extent::locality); }

}  // namespace muster::placement
