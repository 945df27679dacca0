// SPDX-License-Identifier: Apache-2.0
#include <pugixml.hpp>

#include "placement/error.hpp"
#include "placement/read.hpp"
#include "placement/read_xml_text.hpp"

namespace muster::placement {

Node read_topology_file(const std::string& path) {
  // Only the root element's name is wanted, which a damaged file may still show: the reader proper then says
  // what is wrong.
  const std::string text = read_xml_text(path);
  pugi::xml_document document;
  document.load_buffer(text.data(), text.size(), pugi::parse_fragment);
  if (document.child("system")) return read_nccl_xml(path);
  if (document.child("topology")) return read_hwloc_xml(path);
  throw Error(path + ": neither an hwloc XML file (<topology>) nor an NCCL topology file (<system>).");
}

}  // namespace muster::placement
