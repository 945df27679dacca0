// SPDX-License-Identifier: Apache-2.0
#include "placement/topology/xml/check_hwloc_xml.hpp"

#include <hwloc.h>

#include <algorithm>
#include <cstring>
#include <initializer_list>
#include <pugixml.hpp>
#include <string_view>

#include "cpu_set/cpu_set.hpp"
#include "placement/topology/error.hpp"
#include "placement/topology/live/sysfs.hpp"

namespace muster::placement {

namespace {

// Caches and cores are a dozen levels, PCI bridges below them at most 32.
constexpr int deepest_nesting = 128;

[[noreturn]] void fail(const std::string& path, const std::string& what) {
  throw Error(path + ": " + what + "; export one with lstopo --of xml.");
}

bool contains_type(const char* type, std::initializer_list<const char*> types) {
  return std::any_of(types.begin(), types.end(),
                     [&](const char* one) { return std::strcmp(type, one) == 0; });
}

/// "0x0000000f,,0xff" and, for "all the rest", "0xf...f,0x1": groups of 32 bits.
bool is_bitmap(std::string_view text) {
  constexpr std::size_t longest = CpuSet::limit / 32 * 11;
  return !text.empty() && text.size() <= longest && text.starts_with("0x") &&
         text.find_first_not_of("0123456789abcdefABCDEFx,.") == std::string_view::npos;
}

// hwloc also accepts other spellings of its types, for example "NUMAN".
bool is_numbered(const char* type) {
  hwloc_obj_type_t kind{};
  return hwloc_type_sscanf(type, &kind, nullptr, 0) == 0 &&
         (kind == HWLOC_OBJ_PU || kind == HWLOC_OBJ_NUMANODE);
}

class Checker {
 public:
  Checker(const std::string& path, bool has_nodesets) : path_(path), has_nodesets_(has_nodesets) {}

  void check(pugi::xml_node object, int depth) {
    if (depth > deepest_nesting) fail(path_, "nests objects deeper than " + std::to_string(deepest_nesting));
    const char* type = object.attribute("type").value();
    const bool has_sets = !contains_type(type, {"Bridge", "PCIDev", "OSDev", "Misc"});
    if (has_sets) check_sets(object, type);
    if (is_numbered(type)) check_index(object, type);
    for (const auto child : object.children("object")) {
      if (!has_sets && !contains_type(child.attribute("type").value(), {"Bridge", "PCIDev", "OSDev", "Misc"}))
        fail(path_, std::string("has a ") + child.attribute("type").value() + " below a device");
      check(child, depth + 1);
    }
  }

 private:
  void check_sets(pugi::xml_node object, const char* type) {
    for (const char* name :
         {"cpuset", "complete_cpuset", "allowed_cpuset", "nodeset", "complete_nodeset", "allowed_nodeset"}) {
      const auto set = object.attribute(name);
      const bool of_nodes = std::strstr(name, "nodeset") != nullptr;
      const bool required = std::strncmp(name, "allowed", 7) != 0 && (!of_nodes || has_nodesets_);
      if (set ? !is_bitmap(set.value()) : required)
        fail(path_, std::string("damaged: ") + (set ? "odd " : "no ") + name + " of a " + type);
    }
  }

  void check_index(pugi::xml_node object, const char* type) {
    const auto index = to_number(object.attribute("os_index").value());
    if (!index || *index < 0 || *index >= CpuSet::limit)
      fail(path_, std::string("damaged: a ") + type + " without a valid number");
  }

  const std::string& path_;
  const bool has_nodesets_;
};

}  // namespace

void check_hwloc_xml(const std::string& path, const std::string& text, int newest_version) {
  if (text.find("<!ENTITY") != std::string::npos)
    fail(path, "defines XML entities, which no topology export does");
  pugi::xml_document document;
  const auto result = document.load_buffer(text.data(), text.size());
  if (!result)
    fail(path, std::string(result.description()) + " at byte " + std::to_string(result.offset) +
                   "; not a complete XML file");
  const auto topology = document.child("topology");
  if (!topology) fail(path, "not an hwloc XML file, whose root element is <topology>");
  const std::string version = topology.attribute("version").value();  // format 1 has none
  const long major = to_number(version.substr(0, version.find('.'))).value_or(1);
  if (major > newest_version) {
    const std::string newest = std::to_string(newest_version);
    throw Error(path + ": hwloc XML of version " + version + ", but this hwloc reads versions up to " +
                newest + "; export it with lstopo --of xml --export-xml-flags v" + newest + ".");
  }
  if (!topology.child("object")) fail(path, "not an hwloc XML file: it has no objects");
  for (const auto object : topology.children("object")) Checker(path, major >= 2).check(object, 0);
}

}  // namespace muster::placement
