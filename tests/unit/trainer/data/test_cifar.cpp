// SPDX-License-Identifier: Apache-2.0
#include <array>

#include "catch.hpp"
#include "data/cifar.hpp"
#include "data/synthetic_shapes.hpp"
#include "refusal.hpp"
#include "temporary_folder.hpp"

using namespace muster;

namespace {

/// A record with these labels whose planes hold the given bytes.
std::string record(const std::string& labels, char red, char green, char blue) {
  return labels + std::string(1024, red) + std::string(1024, green) + std::string(1024, blue);
}

}  // namespace

TEST_CASE("CIFAR-10's files are read in their order", "[cifar]") {
  const TemporaryFolder folder;
  write_file(folder / "data_batch_1.bin", record("\x03", 1, 2, 3) + record(std::string(1, '\0'), 4, 5, 6));
  for (const char* name : {"data_batch_2.bin", "data_batch_3.bin", "data_batch_4.bin", "data_batch_5.bin"})
    write_file(folder / name, record("\x09", 7, 8, 9));
  write_file(folder / "test_batch.bin", record("\x01", 10, 11, 12));
  const auto read = data::read_cifar(folder.path());
  CHECK(read.classes == 10);
  CHECK(read.side == 32);
  REQUIRE(read.training->count() == 6);
  CHECK(read.held_out->count() == 1);
  CHECK(read.training->label(0) == 3);
  CHECK(read.training->label(1) == 0);
  CHECK(read.training->label(2) == 9);
  CHECK(read.training->planes(1)[0] == 4);
  CHECK(read.training->planes(1)[1024] == 5);
  CHECK(read.training->planes(2)[3071] == 9);
  CHECK(read.held_out->planes(0)[0] == 10);
  const auto before = read.training->fingerprint(0);
  write_file(folder / "data_batch_2.bin", record("\x09", 7, 8, 10));
  CHECK(data::read_cifar(folder.path()).training->fingerprint(0) != before);
}

TEST_CASE("CIFAR-100's second label counts", "[cifar]") {
  const TemporaryFolder folder;
  write_file(folder / "train.bin", record("\x13\x63", 1, 2, 3));
  write_file(folder / "test.bin", record("\x01\x05", 1, 2, 3));
  const auto read = data::read_cifar(folder.path());
  CHECK(read.classes == 100);
  CHECK(read.training->label(0) == 99);
  CHECK(read.training->planes(0)[0] == 1);
}

TEST_CASE("a folder with train.bin alone has token shards, perhaps", "[cifar]") {
  const TemporaryFolder folder;
  write_file(folder / "train.bin", "");
  write_file(folder / "val.bin", "");
  CHECK(data::has_cifar_files(folder.path()));
  CHECK_FALSE(data::has_both_cifar_parts(folder.path()));
  write_file(folder / "test.bin", "");
  CHECK(data::has_both_cifar_parts(folder.path()));
}

TEST_CASE("files that are not CIFAR's are refused with what was found", "[cifar]") {
  const TemporaryFolder folder;
  const auto refusal = [&] { return usage_error_text([&] { data::read_cifar(folder.path()); }); };
  CHECK(refusal().find("there is no data_batch_1.bin or train.bin in it") != std::string::npos);
  write_file(folder / "data_batch_1.bin", record("\x03", 1, 2, 3));
  CHECK(refusal().find("there is no data_batch_2.bin in it") != std::string::npos);
  for (const char* name : {"data_batch_2.bin", "data_batch_3.bin", "data_batch_4.bin", "data_batch_5.bin"})
    write_file(folder / name, record("\x09", 7, 8, 9));
  CHECK(refusal().find("there is no test_batch.bin in it") != std::string::npos);
  write_file(folder / "test_batch.bin", "");
  CHECK(refusal().find("it has 0 bytes, not a multiple of 3073") != std::string::npos);
  write_file(folder / "test_batch.bin", record("\x03", 1, 2, 3) + "x");
  CHECK(refusal().find("it has 3074 bytes, not a multiple of 3073") != std::string::npos);
  write_file(folder / "test_batch.bin", record("\x03", 1, 2, 3) + record("\x0a", 1, 2, 3));
  CHECK(refusal().find("test_batch.bin: label 10 at byte 3073 is not below 10") != std::string::npos);
}

TEST_CASE("shapes are drawn from a seed, with all labels", "[cifar]") {
  for (const int classes : {10, 100}) {
    std::vector<int> often(static_cast<std::size_t>(classes));
    for (std::uint64_t image = 0; image < 20 * often.size(); ++image) {
      const auto shape = data::draw_shape(1, 1, image, classes);
      ++often.at(shape.label);
      if (image < 20) CHECK(shape.planes == data::draw_shape(1, 1, image, classes).planes);
    }
    for (const int count : often) CHECK(count > 3);
  }
  CHECK(data::draw_shape(2, 1, 0, 10).planes != data::draw_shape(1, 1, 0, 10).planes);
  CHECK(data::draw_shape(1, 2, 0, 10).planes != data::draw_shape(1, 1, 0, 10).planes);
  CHECK(data::draw_shape(1, 1, 1, 10).planes != data::draw_shape(1, 1, 0, 10).planes);
}
