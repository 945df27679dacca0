// SPDX-License-Identifier: Apache-2.0
#include "placement/topology/live/topology_snapshot.hpp"

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>

#include "hash/fnv1a.hpp"
#include "placement/topology/error.hpp"
#include "placement/topology/live/sysfs.hpp"

namespace muster::placement {

namespace {

using Json = nlohmann::json;

constexpr int schema = 1;
constexpr std::string_view heading = "muster topology, kept by the plugin; do not edit; checksum ";

std::string first_line(std::string_view body) {
  return std::string(heading) + hexadecimal(fnv1a(body)) + "\n";
}

// The bindings list every member, so that a member that is added later does not compile until it is written
// too.

Json path_json(const PciPath& path) {
  const auto& [host_bridge, bridges] = path;
  Json addresses = Json::array();
  for (const auto& bridge : bridges) addresses.push_back(bridge.to_string());
  return {{"host_bridge", host_bridge}, {"bridges", std::move(addresses)}};
}

Json core_json(const Core& core) {
  const auto& [package, domain, cpus] = core;
  return Json::array({package, domain, cpus.to_list()});
}

Json domain_json(const NumaDomain& numa) {
  const auto& [id, cpus, memory_bytes, gpu_memory, cpus_hidden, distances] = numa;
  return {{"id", id},
          {"cpus", cpus.to_list()},
          {"memory_bytes", memory_bytes ? Json(*memory_bytes) : Json(nullptr)},
          {"gpu_memory", gpu_memory},
          {"cpus_hidden", cpus_hidden},
          {"distances", distances}};
}

Json gpu_json(const Gpu& gpu) {
  const auto& [pci, domain, near_domains, path, uuid, model, minor] = gpu;
  return {{"pci", pci.to_string()},  {"domain", domain}, {"near_domains", near_domains},
          {"path", path_json(path)}, {"uuid", uuid},     {"model", model},
          {"minor", minor}};
}

/// Converts each element of a vector.
template <typename Element, typename ToJson>
Json to_json_array(const std::vector<Element>& elements, ToJson to_json) {
  Json array = Json::array();
  for (const auto& element : elements) array.push_back(to_json(element));
  return array;
}

int number(const Json& value) {
  if (!value.is_number_integer()) throw Error("not an integer");
  const auto wide = value.get<std::int64_t>();
  if (wide < -1 || wide > std::numeric_limits<int>::max()) throw Error("number out of range");
  return static_cast<int>(wide);
}

const std::string& text(const Json& value) { return value.get_ref<const std::string&>(); }

CpuSet to_cpus(const Json& value) { return CpuSet::parse_list(text(value)).value(); }

const Json& array(const Json& value) {
  if (!value.is_array()) throw Error("not an array");
  return value;
}

PciPath to_path(const Json& json) {
  PciPath path;
  path.host_bridge = text(json.at("host_bridge"));
  for (const auto& bridge : array(json.at("bridges")))
    path.bridges.push_back(PciAddress::parse(text(bridge)));
  return path;
}

Core to_core(const Json& json) {
  if (array(json).size() != 3) throw Error("not a core");
  return {number(json[0]), number(json[1]), to_cpus(json[2])};
}

NumaDomain to_domain(const Json& json) {
  NumaDomain domain;
  domain.id = number(json.at("id"));
  domain.cpus = to_cpus(json.at("cpus"));
  const Json& memory = json.at("memory_bytes");
  if (memory.is_number_unsigned()) {
    domain.memory_bytes = memory.get<std::uint64_t>();
  } else if (!memory.is_null()) {
    throw Error("not a size");
  }
  domain.gpu_memory = json.at("gpu_memory").get<bool>();
  domain.cpus_hidden = json.at("cpus_hidden").get<bool>();
  for (const auto& distance : array(json.at("distances"))) domain.distances.push_back(number(distance));
  return domain;
}

Gpu to_gpu(const Json& json) {
  Gpu gpu;
  gpu.pci = PciAddress::parse(text(json.at("pci")));
  gpu.domain = number(json.at("domain"));
  for (const auto& near : array(json.at("near_domains"))) gpu.near_domains.push_back(number(near));
  gpu.path = to_path(json.at("path"));
  gpu.uuid = text(json.at("uuid"));
  gpu.model = text(json.at("model"));
  gpu.minor = number(json.at("minor"));
  return gpu;
}

/// True for a node such as read_static() returns: cores with CPUs of their own, on existing domains.
bool is_valid(const Node& node) {
  if (node.cores.empty() || node.domains.empty()) return false;
  CpuSet seen;
  for (const auto& core : node.cores) {
    if (core.cpus.empty() || core.cpus.intersects(seen) || node.find_domain(core.domain) == nullptr)
      return false;
    seen |= core.cpus;
  }
  for (std::size_t i = 1; i < node.domains.size(); ++i)
    if (node.domains[i - 1].id >= node.domains[i].id) return false;
  return std::all_of(node.gpus.begin(), node.gpus.end(), [&](const Gpu& gpu) {
    const auto known = [&](int id) { return node.find_domain(id) != nullptr; };
    return (gpu.domain == -1 || known(gpu.domain)) &&
           std::all_of(gpu.near_domains.begin(), gpu.near_domains.end(), known);
  });
}

Node to_node(const Json& json) {
  Node node;
  node.source = text(json.at("source"));
  for (const auto& core : array(json.at("cores"))) node.cores.push_back(to_core(core));
  for (const auto& domain : array(json.at("domains"))) node.domains.push_back(to_domain(domain));
  for (const auto& gpu : array(json.at("gpus"))) node.gpus.push_back(to_gpu(gpu));
  for (const auto& note : array(json.at("notes"))) node.notes.push_back(text(note));
  return node;
}

}  // namespace

NodeIdentity read_identity(const std::string& root) {
  const Sysfs sysfs(root);
  std::string found;
  const auto add = [&](const std::string& line) { found += line + "\n"; };
  for (const auto& name : sysfs.names("/sys/bus/pci/devices")) add(name);
  for (const char* file : {"/sys/devices/system/cpu/online", "/sys/devices/system/node/online",
                           "/sys/devices/system/node/has_memory", "/proc/driver/nvidia/version"})
    add(sysfs.text(file).value_or("?"));
  // The driver creates such a folder, and assigns the minor number, each time it attaches a GPU: a GPU that
  // was detached and attached again has the same name and another inode.
  const std::string gpus = "/proc/driver/nvidia/gpus";
  for (const auto& name : sysfs.names(gpus)) add(name + " " + std::to_string(sysfs.inode(gpus + "/" + name)));
  return {sysfs.text("/proc/sys/kernel/random/boot_id").value_or(""), fnv1a(found)};
}

std::string write_snapshot(const Node& node, const NodeIdentity& identity) {
  const auto unnamed = [](const Gpu& gpu) { return gpu.minor >= 0 && gpu.uuid.empty(); };
  if (identity.boot.empty() || std::any_of(node.gpus.begin(), node.gpus.end(), unnamed)) return {};
  const Json json = {{"schema", schema},
                     {"version", MUSTER_VERSION},
                     {"boot", identity.boot},
                     {"inventory", hexadecimal(identity.inventory)},
                     {"source", node.source},
                     {"cores", to_json_array(node.cores, core_json)},
                     {"domains", to_json_array(node.domains, domain_json)},
                     {"gpus", to_json_array(node.gpus, gpu_json)},
                     {"notes", node.notes}};
  try {
    const std::string body = json.dump() + "\n";
    return first_line(body) + body;
  } catch (const Json::exception&) {  // a name that is not UTF-8
    return {};
  }
}

std::optional<Node> read_snapshot_body(std::string_view body, const NodeIdentity& identity) noexcept {
  try {
    const Json json = Json::parse(body);
    if (number(json.at("schema")) != schema || text(json.at("version")) != MUSTER_VERSION ||
        text(json.at("boot")) != identity.boot ||
        text(json.at("inventory")) != hexadecimal(identity.inventory))
      return std::nullopt;
    Node node = to_node(json);
    if (!is_valid(node)) return std::nullopt;
    return node;
  } catch (const std::exception&) {
    return std::nullopt;
  }
}

std::optional<Node> read_snapshot(std::string_view record, const NodeIdentity& identity) noexcept {
  try {
    const auto end = record.find('\n');
    if (identity.boot.empty() || end == std::string_view::npos) return std::nullopt;
    const std::string_view body = record.substr(end + 1);
    if (record.substr(0, end + 1) != first_line(body)) return std::nullopt;
    return read_snapshot_body(body, identity);
  } catch (const std::exception&) {  // out of memory
    return std::nullopt;
  }
}

}  // namespace muster::placement
