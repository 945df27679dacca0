// SPDX-License-Identifier: Apache-2.0
// print_shard FILE: writes the samples of a tar shard to standard output, one line each: key, label, and the
// picture's bytes as hexadecimal digits. For tests/cluster/frameworks/webdataset_compare.py.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "picture_sets/picture_shards.hpp"

using namespace muster;

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  try {
    const data::MappedFile file(argv[1]);
    for (const auto& picture : picture_sets::list_shard_pictures(file.bytes(), argv[1])) {
      const auto bytes = file.bytes().subspan(picture.offset, picture.bytes);
      fmt::print("{}\t{}\t{:02x}\n", picture.key, picture.label, fmt::join(bytes, ""));
    }
    return 0;
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
}
