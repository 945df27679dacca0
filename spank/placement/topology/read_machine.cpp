// SPDX-License-Identifier: Apache-2.0
#include "placement/topology/read_machine.hpp"

#include <charconv>
#include <fstream>
#include <map>
#include <sstream>

#include "placement/topology/error.hpp"

namespace muster::placement {

namespace {

constexpr std::uint32_t no_real_domain = 0xfffffff0;  // of the switches, whose addresses nobody published
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
    std::istringstream words(line);
    std::string key;
    if (!(words >> key) || key.starts_with('#')) return;
    if (key == "machine")
      machine_.description = rest_of(words);
    else if (key == "source")
      machine_.sources.push_back(rest_of(words));
    else if (key == "cpus")
      read_cpus(words);
    else if (key == "gpu")
      read_gpu(words);
    else if (key == "nic")
      read_nic(words);
    else
      fail("'" + key + "' is not known: use machine, source, cpus, gpu or nic");
  }

  std::string rest_of(std::istringstream& words) const {
    std::string rest;
    std::getline(words >> std::ws, rest);
    if (rest.empty()) fail("the line ends too early");
    return rest;
  }

  std::string word(std::istringstream& words) const {
    std::string text;
    if (!(words >> text)) fail("the line ends too early");
    return text;
  }

  int number(std::istringstream& words, int least) const {
    const std::string text = word(words);
    int value = -1;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size() || value < least || value > most)
      fail("'" + text + "' must be a number between " + std::to_string(least) + " and " +
           std::to_string(most));
    return value;
  }

  /// PACKAGES DOMAINS CORES THREADS NEAR FAR; CPU numbers as Linux gives them: all first threads, then the
  /// second.
  void read_cpus(std::istringstream& words) {
    const int packages = number(words, 1), domains_each = number(words, 1);
    const int cores_each = number(words, 1), threads = number(words, 1);
    const int near = number(words, 10), far = number(words, 10);
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

  int domain(std::istringstream& words) const {
    const int id = number(words, 0);
    if (machine_.node.find_domain(id) == nullptr) fail("there is no NUMA domain " + std::to_string(id));
    return id;
  }

  /// BRIDGE[/SWITCH[/SWITCH...]]: names that tell which devices share a host bridge and switches. A switch
  /// counts as two bridges, up and down.
  PciPath path(std::istringstream& words) {
    const std::string text = word(words);
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

  void read_gpu(std::istringstream& words) {
    Gpu gpu;
    gpu.pci = address(word(words));
    if (machine_.node.find_gpu(gpu.pci) != nullptr) fail("GPU " + gpu.pci.to_string() + " is there twice");
    gpu.domain = domain(words);
    gpu.path = path(words);
    gpu.model = rest_of(words);
    machine_.node.gpus.push_back(std::move(gpu));
  }

  void read_nic(std::istringstream& words) {
    Nic nic;
    if (const std::string name = word(words); name != "-") nic.name = name;
    if (const std::string pci = word(words); pci != "-") nic.pci = address(pci);
    nic.domain = domain(words);
    nic.path = path(words);
    const std::string kind = word(words);
    const auto known = kinds().find(kind);
    if (known == kinds().end())
      fail("'" + kind + "' is no kind of NIC: use infiniband, roce, efa, slingshot or ethernet");
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
