// SPDX-License-Identifier: Apache-2.0
// Archives of other forms are compared with Python's tarfile and webdataset in
// tests/cluster/frameworks/pictures.bats.
#include <fmt/format.h>

#include "catch.hpp"
#include "has.hpp"
#include "picture_sets/picture_shards.hpp"
#include "picture_sets/tar_members.hpp"
#include "temporary_folder.hpp"
#include "trainer/data/refusal.hpp"
#include "trainer/picture_sets/tar_archive.hpp"

using namespace muster;
using namespace muster::picture_sets;

namespace {

std::span<const std::uint8_t> bytes_of(const std::string& text) {
  return {reinterpret_cast<const std::uint8_t*>(text.data()), text.size()};
}

std::string shard_refusal(const std::string& archive) {
  const std::string whole = archive + tar_end();
  return usage_error_text([&] { list_shard_pictures(bytes_of(whole), "a.tar"); });
}

}  // namespace

TEST_CASE("the files of an archive are listed", "[picture_sets]") {
  const std::string archive = tar_member("a.txt", "one") + tar_member("folder", "", '5') +
                              tar_member("folder/b", std::string(600, 'b')) + tar_end();
  const auto members = list_tar_members(bytes_of(archive), "a.tar");
  REQUIRE(members.size() == 2);
  CHECK(members[0].name == "a.txt");
  CHECK(archive.substr(members[0].offset, members[0].bytes) == "one");
  CHECK(members[1].name == "folder/b");
  CHECK(archive.substr(members[1].offset, members[1].bytes) == std::string(600, 'b'));
}

TEST_CASE("long names come from GNU's and POSIX's headers", "[picture_sets]") {
  const std::string name(300, 'n'), record = fmt::format("{} path={}\n", 310, name);
  REQUIRE(record.size() == 310);
  const std::string archive = tar_member("././@LongLink", name + '\0', 'L') + tar_member("nnn", "1") +
                              tar_member("pax", record, 'x') + tar_member("nnn", "2") +
                              tar_member("plain", "3") + tar_end();
  const auto members = list_tar_members(bytes_of(archive), "a.tar");
  REQUIRE(members.size() == 3);
  CHECK(members[0].name == name);
  CHECK(members[1].name == name);
  CHECK(members[2].name == "plain");
}

TEST_CASE("a binary size is read", "[picture_sets]") {
  std::string archive = tar_member("a", "xyz") + tar_end();
  std::string size(12, '\0');
  size[0] = '\x80';
  size[11] = 3;
  set_tar_size(archive, size);
  CHECK(list_tar_members(bytes_of(archive), "a.tar").at(0).bytes == 3);
}

TEST_CASE("damaged archives are refused", "[picture_sets]") {
  const auto refusal = [](const std::string& archive) {
    return usage_error_text([&] { list_tar_members(bytes_of(archive), "a.tar"); });
  };
  const std::string whole = tar_member("a", std::string(2000, 'a')) + tar_member("b", "b") + tar_end();
  CHECK(has(refusal(whole.substr(0, 1000)), "a.tar: at byte 0 a file ends behind the archive's end"));
  CHECK(has(refusal("short"), "shorter than a tar archive"));
  // At the end of a member, within the next header, and before the block of zeros.
  for (const std::size_t size : {2560, 2600, 3584}) {
    CAPTURE(size);
    CHECK(has(refusal(whole.substr(0, size)), "the block of zeros that ends an archive: it is truncated"));
  }
  CHECK(refusal(whole.substr(0, 3584 + 512)).empty());
  std::string damaged = whole;
  damaged[2563] ^= 1;
  CHECK(has(refusal(damaged), "at byte 2560 there is no header with a right checksum"));
  CHECK(has(refusal(tar_member("x", "12 path=a", 'x')), "extended header"));
  CHECK(has(refusal(tar_member("x", "99 path=a\n", 'x')), "extended header"));
  std::string huge = tar_member("a", "");
  set_tar_size(huge, "777777777777");
  CHECK(has(refusal(huge), "truncated"));
}

TEST_CASE("a sample is a picture and a label with the same key", "[picture_sets]") {
  const TemporaryFolder folder;
  const auto first =
      folder.write("0.tar", tar_member("x.y/1.cls", "7\n") + tar_member("x.y/1.jpg", "J") +
                                tar_member(".hidden", "") + tar_member("readme", "") + tar_end());
  const auto second = folder.write("1.tar", tar_member("p.JPEG", "PP") + tar_member("p.json", "{}") +
                                                tar_member("p.cls", "0") + tar_end());
  // As webdataset, the key ends at the first dot.
  CHECK(has(shard_refusal(tar_member("1.0.cls", "7") + tar_member("1.0.jpg", "J")), "has no picture"));
  const PictureShards shards({first, second});
  REQUIRE(shards.count() == 2);
  CHECK(shards.label(0) == 7);
  CHECK(shards.label(1) == 0);
  CHECK(shards.name(0) == "x.y/1 in " + first);
  CHECK(shards.name(1) == "p in " + second);
  std::vector<std::uint8_t> buffer;
  CHECK(shards.read(0, buffer).size() == 1);
  CHECK(shards.read(1, buffer).size() == 2);
}

TEST_CASE("incomplete samples are refused", "[picture_sets]") {
  CHECK(shard_refusal(tar_member("a.jpg", "")) == "the shard a.tar: the sample a has no label (.cls)");
  CHECK(has(shard_refusal(tar_member("a.cls", "1")), "has no picture"));
  CHECK(has(shard_refusal(tar_member("a.jpg", "") + tar_member("a.png", "")), "two pictures"));
  CHECK(has(shard_refusal(tar_member("a.cls", "1") + tar_member("a.cls", "1")), "two labels"));
  CHECK(has(shard_refusal(tar_member("a.cls", "dog") + tar_member("a.jpg", "")), "label 'dog'"));
  CHECK(has(shard_refusal(""), "has no picture"));
}
