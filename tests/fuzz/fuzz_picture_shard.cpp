// SPDX-License-Identifier: Apache-2.0
// A tar archive of pictures and labels.
#include <cstdlib>
#include <vector>

#include "muster/error.hpp"
#include "picture_sets/picture_shards.hpp"
#include "picture_sets/tar_members.hpp"
#include "printable_error.hpp"

using namespace muster;

namespace {

/// Makes the checksums of the headers right, which mutations would hardly find: of each block that says
/// "ustar".
void correct_checksums(std::vector<std::uint8_t>& archive) {
  constexpr std::size_t block = 512, checksum = 148, magic = 257;
  for (std::size_t at = 0; at + block <= archive.size(); at += block) {
    if (archive[at + magic] != 'u') continue;
    unsigned sum = 8 * ' ';
    for (std::size_t i = 0; i < block; ++i) sum += i >= checksum && i < checksum + 8 ? 0 : archive[at + i];
    for (std::size_t digit = 6; digit-- > 0; sum /= 8)
      archive[at + checksum + digit] = static_cast<std::uint8_t>('0' + sum % 8);
    archive[at + checksum + 6] = 0;
    archive[at + checksum + 7] = ' ';
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::vector<std::uint8_t> archive(data, data + size);
  correct_checksums(archive);
  try {
    for (const auto& member : picture_sets::list_tar_members(archive, "a.tar")) {
      if (member.offset > size || member.bytes > size - member.offset) std::abort();
    }
    for (const auto& picture : picture_sets::list_shard_pictures(archive, "a.tar")) {
      if (picture.label < 0 || picture.offset > size || picture.bytes > size - picture.offset) std::abort();
    }
  } catch (const Error& error) {
    fuzz::check_printable(error);
  }
  return 0;
}
