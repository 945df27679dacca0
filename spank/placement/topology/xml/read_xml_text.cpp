// SPDX-License-Identifier: Apache-2.0
#include "placement/topology/xml/read_xml_text.hpp"

#include <filesystem>

#include "file/regular_file.hpp"
#include "placement/topology/error.hpp"

namespace muster::placement {

// The parsers size their buffers by seeking, which gives absurd sizes for folders and devices. So only
// regular files are read.
std::string read_xml_text(const std::string& path) {
  constexpr std::size_t largest = 64 << 20;  // the largest machine's hwloc export is below 5 MB
  std::error_code error;
  if (std::filesystem::file_size(path, error) > largest && !error)
    throw Error(path + ": larger than 64 MiB; not a topology file.");
  auto file = read_regular_file(path, largest);
  if (!file) throw Error(path + ": cannot be read; name an hwloc or NCCL topology XML file.");
  return std::move(file->text);
}

}  // namespace muster::placement
