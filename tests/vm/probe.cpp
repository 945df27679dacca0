// SPDX-License-Identifier: Apache-2.0
// A task of the virtual machine's tests: prints in one line its placement as the kernel sees it. It shares no
// code with the code under test.
//
//   rank=0 gpus=0 gpu_domains=0 cpus=0-3 cpu_domains=0 memory=0:8192 denied=EPERM nics=rocep24s0
//   nic_domains=0 switch=0000:15:00.0 shared=0000:15:00.0 …
//
// gpus: the task's GPUs from Muster's variables; without Muster, those whose device file opens (a file
// without a driver fails with ENXIO). memory: the pages of 32 MiB, just written, by domain. switch: the
// upstream port of the GPU's PCI switch. shared: the lowest bridge that the GPU and the NIC have in common.
#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <vector>

namespace {

namespace fs = std::filesystem;
using Words = std::vector<std::string>;

std::string line_of(const fs::path& file) {
  std::ifstream stream(file);
  std::string line;
  std::getline(stream, line);
  return line;
}

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

template <typename Range>
std::string joined(const Range& words) {
  std::string text;
  for (const auto& word : words) text += (text.empty() ? "" : ",") + std::string(word);
  return text.empty() ? "-" : text;
}

Words split(const std::string& text, char separator) {
  Words words;
  std::stringstream stream(text);
  for (std::string word; std::getline(stream, word, separator);) words.push_back(word);
  return words;
}

// The PCI address of each minor number, from the (fake) driver.
std::map<std::string, std::string> gpu_addresses() {
  std::map<std::string, std::string> addresses;
  for (const auto& entry : fs::directory_iterator("/proc/driver/nvidia/gpus")) {
    std::ifstream information(entry.path() / "information");
    for (std::string line; std::getline(information, line);)
      if (line.starts_with("Device Minor:"))
        addresses[line.substr(line.find_last_of(" \t") + 1)] = entry.path().filename();
  }
  return addresses;
}

// "ENXIO" for a device that may be opened, "EPERM" for one that the cgroup denies.
std::string opening(const std::string& minor) {
  const int file = open(("/dev/nvidia" + minor).c_str(), O_RDWR | O_CLOEXEC);
  if (file >= 0) close(file);
  return file >= 0 ? "opened" : errno == ENXIO ? "ENXIO" : errno == EPERM ? "EPERM" : std::strerror(errno);
}

// The domain of each CPU that this process may run on.
std::set<std::string> cpu_domains() {
  cpu_set_t mask;
  sched_getaffinity(0, sizeof mask, &mask);
  std::set<std::string> domains;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(cpu, &mask)) continue;
    for (const auto& entry : fs::directory_iterator("/sys/devices/system/cpu/cpu" + std::to_string(cpu))) {
      const std::string name = entry.path().filename();
      if (name.starts_with("node")) domains.insert(name.substr(4));
    }
  }
  return domains;
}

std::string allowed_cpus() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with("Cpus_allowed_list:")) return line.substr(line.find_last_of(" \t") + 1);
  return "-";
}

// Writes 32 MiB and returns the pages' domains as the kernel reports them: "0:8192" or "0:8000,1:192".
std::string memory_pages() {
  constexpr std::size_t bytes = 32u << 20;
  void* block = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (block == MAP_FAILED) return "no memory";
  madvise(block, bytes, MADV_NOHUGEPAGE);
  std::memset(block, 1, bytes);
  std::ifstream maps("/proc/self/numa_maps");
  // The kernel may have merged neighbouring mappings, so find this one by its size, not its address.
  Words pages;
  for (std::string line; std::getline(maps, line);) {
    const Words words = split(line, ' ');
    if (std::none_of(words.begin(), words.end(), [](const auto& w) {
          return w.starts_with("anon=") && std::stoul(w.substr(5)) >= bytes / 4096;
        }))
      continue;
    for (const auto& word : words)
      if (word.size() > 2 && word[0] == 'N' && word.find('=') != std::string::npos) {
        const auto equals = word.find('=');
        pages.push_back(word.substr(1, equals - 1) + ":" + word.substr(equals + 1));
      }
  }
  return joined(pages);
}

// The bridges above a device, from its sysfs path without the device itself.
Words bridges_above(const fs::path& device) {
  Words bridges;
  for (const auto& part : fs::canonical(device))
    if (std::string(part).find(':') != std::string::npos && std::string(part).starts_with("0000:"))
      bridges.push_back(part);
  if (!bridges.empty()) bridges.pop_back();
  return bridges;
}

std::string lowest_shared_bridge(const fs::path& one, const fs::path& other) {
  const Words a = bridges_above(one), b = bridges_above(other);
  std::string shared = "-";
  for (std::size_t i = 0; i < std::min(a.size(), b.size()) && a[i] == b[i]; ++i) shared = a[i];
  return shared;
}

}  // namespace

int main() {
  const auto addresses = gpu_addresses();
  Words opened, denied, gpus, gpu_domains, nics, nic_domains, switches, shared;
  for (const auto& [minor, address] : addresses) {
    const std::string result = opening(minor);
    if (result == "ENXIO") opened.push_back(minor);
    if (result == "EPERM") denied.push_back(minor);
    const std::string chosen = variable("MUSTER_GPUS");
    if (chosen.empty() ? result == "ENXIO" : chosen.find(address) != std::string::npos) gpus.push_back(minor);
  }
  for (const auto& minor : gpus) {
    const fs::path device = "/sys/bus/pci/devices/" + addresses.at(minor);
    gpu_domains.push_back(line_of(device / "numa_node"));
    const Words bridges = bridges_above(device);
    if (bridges.size() > 1)
      switches.push_back(bridges[bridges.size() - 2]);  // the last one is the downstream port to the GPU
  }
  for (const auto& port : split(variable("MUSTER_NICS"), ',')) {
    const std::string name = port.substr(0, port.find(':'));
    const fs::path device = "/sys/class/infiniband/" + name + "/device";
    nics.push_back(name);
    nic_domains.push_back(line_of(device / "numa_node"));
    if (gpus.size() == 1)
      shared.push_back(lowest_shared_bridge("/sys/bus/pci/devices/" + addresses.at(gpus[0]), device));
  }
  std::printf(
      "rank=%s gpus=%s gpu_domains=%s cpus=%s cpu_domains=%s memory=%s opened=%s denied=%s nics=%s "
      "nic_domains=%s switch=%s "
      "shared=%s muster_cpus=%s muster_memory=%s\n",
      variable("SLURM_PROCID").c_str(), joined(gpus).c_str(), joined(gpu_domains).c_str(),
      allowed_cpus().c_str(), joined(cpu_domains()).c_str(), memory_pages().c_str(), joined(opened).c_str(),
      joined(denied).c_str(), joined(nics).c_str(), joined(nic_domains).c_str(), joined(switches).c_str(),
      joined(shared).c_str(), joined(Words{variable("MUSTER_CPUS")}).c_str(),
      joined(Words{variable("MUSTER_MEMORY")}).c_str());
  return 0;
}
