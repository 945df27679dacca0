// SPDX-License-Identifier: Apache-2.0
#include "placement/topology/read_xml_text.hpp"

#include <filesystem>
#include <fstream>

#include "placement/topology/error.hpp"

namespace muster::placement {

// The parsers size their buffers by seeking, which gives absurd sizes for folders and devices. So only
// regular files are read.
std::string read_xml_text(const std::string& path) {
  constexpr std::uintmax_t largest = 64 << 20;  // the largest machine's hwloc export is below 5 MB
  std::error_code error;
  const bool regular = std::filesystem::is_regular_file(path, error);
  const auto size = regular ? std::filesystem::file_size(path, error) : 0;
  std::ifstream file;
  if (regular) file.open(path, std::ios::binary);  // opening a named pipe would wait for its writer
  if (error || !regular || !file)
    throw Error(path + ": cannot be read; name an hwloc or NCCL topology XML file.");
  if (size > largest) throw Error(path + ": larger than 64 MiB; not a topology file.");
  std::string text(size, '\0');
  file.read(text.data(), static_cast<std::streamsize>(size));
  text.resize(static_cast<std::size_t>(file.gcount()));
  return text;
}

}  // namespace muster::placement
