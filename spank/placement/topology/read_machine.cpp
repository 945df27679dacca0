// SPDX-License-Identifier: Apache-2.0
#include "placement/topology/read_machine.hpp"

#include <fstream>
#include <map>
#include <sstream>

#include "placement/topology/error.hpp"
#include "text/parse_number.hpp"

namespace muster::placement {

namespace {

constexpr std::uint32_t no_real_domain = 0xfffffff0;  // for switches: their addresses are not published
constexpr int most = 1024;

const std::map<std::string, NicKind>& kinds() {
  static const std::map<std::string, NicKind> known = {{"infiniband", NicKind::infiniband},
                                                       {"roce", NicKind::roce},
                                                       {"efa", NicKind::efa},
                                                       {"slingshot", NicKind::slingshot},
                                                       {"ethernet", NicKind::ethernet}};
  return known;
}

class Reader {
 public:
  explicit Reader(std::string path) : path_(std::move(path)) {}

  Machine read() {
    std::ifstream file(path_);
    if (!file) throw Error(path_ + ": cannot be read.");
    for (std::string line; std::getline(file, line);) {
      ++line_;
      read_line(line);
    }
    if (machine_.description.empty() || machine_.sources.empty()) fail("lacks a 'machine' or 'source' line");
    if (machine_.node.cores.empty()) fail("lacks a 'cpus' line");
    finish_node();
    return std::move(machine_);
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw Error(path_ + ", line " + std::to_string(line_) + ": " + what + ".");
  }

  void read_line(const std::string& line) {
    std::istringstream fields(line);
    std::string key;
    if (!(fields >> key) || key.starts_with('#')) return;
    if (key == "machine")
      machine_.description = read_rest(fields);
    else if (key == "source")
      machine_.sources.push_back(read_rest(fields));
    else if (key == "cpus")
      read_cpus(fields);
    else if (key == "gpu")
      read_gpu(fields);
    else if (key == "nic")
      read_nic(fields);
    else
      fail("'" + key + "' is not known: use machine, source, cpus, gpu or nic");
  }

  std::string read_rest(std::istringstream& fields) const {
    std::string rest;
    std::getline(fields >> std::ws, rest);
    if (rest.empty()) fail("the line ends too early");
    return rest;
  }

  std::string read_field(std::istringstream& fields) const {
    std::string text;
    if (!(fields >> text)) fail("the line ends too early");
    return text;
  }

  int read_number(std::istringstream& fields, int least) const {
    const std::string text = read_field(fields);
    const int value = parse_number<int>(text).value_or(-1);
    if (value < least || value > most)
      fail("'" + text + "' must be a number between " + std::to_string(least) + " and " +
           std::to_string(most));
    return value;
  }

  /// PACKAGES DOMAINS CORES THREADS NEAR FAR. CPUs are numbered as Linux does: all first threads, then all
  /// second threads.
  void read_cpus(std::istringstream& fields) {
    const int packages = read_number(fields, 1), domains_each = read_number(fields, 1);
    const int cores_each = read_number(fields, 1), threads = read_number(fields, 1);
    const int near = read_number(fields, 10), far = read_number(fields, 10);
    const int domains = packages * domains_each, cores = domains * cores_each;
    if (!machine_.node.cores.empty() || cores * threads > CpuSet::limit) fail("too many CPUs");
    for (int id = 0; id < domains; ++id) {
      NumaDomain domain;
      domain.id = id;
      for (int other = 0; other < domains; ++other)
        domain.distances.push_back(id == other ? 10 : id / domains_each == other / domains_each ? near : far);
      machine_.node.domains.push_back(std::move(domain));
      for (int i = 0; i < cores_each; ++i) {
        Core core{id / domains_each, id, {}};
        for (int thread = 0; thread < threads; ++thread) core.cpus.add(id * cores_each + i + thread * cores);
        machine_.node.cores.push_back(std::move(core));
      }
    }
  }

  PciAddress address(const std::string& text) const {
    const auto pci = PciAddress::try_parse(text);
    if (!pci) fail("'" + text + "' is not a PCI address");
    return *pci;
  }

  int domain(std::istringstream& fields) const {
    const int id = read_number(fields, 0);
    if (machine_.node.find_domain(id) == nullptr) fail("there is no NUMA domain " + std::to_string(id));
    return id;
  }

  /// BRIDGE[/SWITCH[/SWITCH...]]: devices with the same names share a host bridge and switches. A switch
  /// counts as two bridges, its upstream and a downstream port.
  PciPath path(std::istringstream& fields) {
    const std::string text = read_field(fields);
    PciPath path{text.substr(0, text.find('/')), {}};
    for (auto slash = text.find('/'); slash != std::string::npos;) {
      slash = text.find('/', slash + 1);
      const auto [at, is_new] = switches_.emplace(text.substr(0, slash), switches_.size());
      if (at->second > 255) fail("too many PCI switches");
      for (const int port : {0, 1})
        path.bridges.push_back(
            {no_real_domain, static_cast<std::uint8_t>(at->second), static_cast<std::uint8_t>(port), 0});
    }
    return path;
  }

  void read_gpu(std::istringstream& fields) {
    Gpu gpu;
    gpu.pci = address(read_field(fields));
    if (machine_.node.find_gpu(gpu.pci) != nullptr) fail("GPU " + gpu.pci.to_string() + " is listed twice");
    gpu.domain = domain(fields);
    gpu.path = path(fields);
    gpu.model = read_rest(fields);
    machine_.node.gpus.push_back(std::move(gpu));
  }

  void read_nic(std::istringstream& fields) {
    Nic nic;
    if (const std::string name = read_field(fields); name != "-") nic.name = name;
    if (const std::string pci = read_field(fields); pci != "-") nic.pci = address(pci);
    nic.domain = domain(fields);
    nic.path = path(fields);
    const std::string kind = read_field(fields);
    const auto known = kinds().find(kind);
    if (known == kinds().end())
      fail("'" + kind + "' is not a kind of NIC: use infiniband, roce, efa, slingshot or ethernet");
    nic.kind = known->second;
    machine_.node.nics.push_back(std::move(nic));
  }

  void finish_node() {
    machine_.node.source = path_;
    std::string sources;
    for (const auto& source : machine_.sources) sources += (sources.empty() ? "" : ", ") + source;
    machine_.node.notes = {machine_.description + ", as described by " + sources};
    finish(machine_.node);
  }

  std::string path_;
  int line_ = 0;
  Machine machine_;
  std::map<std::string, std::size_t> switches_;
};

}  // namespace

Machine read_machine(const std::string& path) { return Reader(path).read(); }

}  // namespace muster::placement
