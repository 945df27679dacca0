// SPDX-License-Identifier: Apache-2.0
#include <sys/stat.h>

#include <cstring>

#include "catch.hpp"
#include "checkpoint/safetensors.hpp"
#include "muster/error.hpp"
#include "temporary_folder.hpp"
#include "text/printable.hpp"

using namespace muster;

namespace {

/// A file with this header, followed by `data_size` zero bytes.
std::string make_file(const std::string& header, std::size_t data_size) {
  std::string bytes(8, '\0');
  const std::uint64_t length = header.size();
  std::memcpy(bytes.data(), &length, 8);
  return bytes + header + std::string(data_size, '\0');
}

std::string refusal(const std::filesystem::path& path) {
  try {
    const SafetensorsFile file(path);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("hostile safetensors headers are refused without harm", "[safetensors]") {
  const TemporaryFolder folder;
  const auto path = folder / "hostile";
  const auto check = [&](const std::string& bytes) {
    write_file(path, bytes);
    const std::string text = refusal(path);
    CAPTURE(text);
    CHECK_FALSE(text.empty());
    CHECK(text == printable(text));
  };
  const auto tensor = [](const std::string& name, const std::string& shape, const std::string& offsets) {
    return "\"" + name + R"(":{"dtype":"F32","shape":)" + shape + R"(,"data_offsets":)" + offsets + "}";
  };
  REQUIRE(refusal((write_file(path, make_file("{" + tensor("a", "[2]", "[0,8]") + "}", 8)), path)).empty());
  check("");
  check("1234567");
  check(std::string(8, '\xff'));                       // a header of 2^64 - 1 bytes
  check(std::string("\0\0\0\0\1\0\0\0", 8));           // a header of 4 GiB
  check(std::string("\x40\0\0\0\0\0\0\0", 8) + "{}");  // a header longer than the file
  check(make_file("", 0));
  check(make_file("[]", 0));
  check(make_file("{", 0));
  check(make_file("{\"a\xff\":1}", 0));           // not UTF-8
  check(make_file(std::string(100000, '['), 0));  // deep nesting
  check(make_file("{\"a\":" + std::string(100000, '['), 0));
  check(make_file("{\"a\":5}", 0));
  check(make_file("{\"__metadata__\":{\"a\":5}}", 0));
  check(make_file("{" + tensor("a", "[2]", "[0,8]") + "," + tensor("b", "[2]", "[4,12]") + "}",
                  12));  // overlap
  check(make_file("{" + tensor("a", "[2]", "[0,8]") + "," + tensor("b", "[2]", "[0,8]") + "}",
                  8));  // the same bytes
  check(
      make_file("{" + tensor("a", "[2]", "[0,8]") + "," + tensor("b", "[2]", "[12,20]") + "}", 20));  // hole
  check(make_file("{" + tensor("a", "[2]", "[0,8]") + "," + tensor("a", "[2]", "[8,16]") + "}",
                  16));                                            // a name twice
  check(make_file("{" + tensor("a", "[2]", "[4,12]") + "}", 12));  // hole at the start
  check(make_file("{" + tensor("a", "[2]", "[8,0]") + "}", 8));
  check(make_file("{" + tensor("a", "[3]", "[0,8]") + "}", 8));
  check(make_file("{" + tensor("a", "[-2]", "[0,8]") + "}", 8));
  check(make_file("{" + tensor("a", "[2.0]", "[0,8]") + "}", 8));
  check(make_file("{" + tensor("a", "[4611686018427387904,4]", "[0,0]") + "}",
                  0));  // 2^62 * 4 * 4 overflows to 0
  check(make_file("{" + tensor("a", "[1,1,1,1,1,1,1,1,1]", "[0,4]") + "}", 4));
  check(make_file(R"({"a":{"dtype":"F31","shape":[2],"data_offsets":[0,8]}})", 8));
  check(make_file(R"({"a\n\u0007b":{"dtype":"F31\n","shape":[2],"data_offsets":[0,8]}})", 8));
  check(make_file(R"({"\u009b2J\u202e":{"dtype":"F31","shape":[2],"data_offsets":[0,8]}})", 8));
  check(make_file(R"({"a":{"dtype":"F32","data_offsets":[0,8]}})", 8));
  check(make_file(R"({"a":{"dtype":"F32","shape":[2]}})", 8));
  check(make_file(R"({"a":{"shape":[2],"data_offsets":[0,8]}})", 8));
  check(make_file(R"({"a":{"dtype":"F32","dtype":"F32","shape":[2],"data_offsets":[0,8]}})", 8));
  check(make_file(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8],"more":{}}})", 8));
  check(make_file(R"({"a":{"dtype":["F32"],"shape":[2],"data_offsets":[0,8]}})", 8));
  check(make_file(R"({"a":{"dtype":"F32","shape":[[2]],"data_offsets":[0,8]}})", 8));
  check(make_file(R"({"a":{"dtype":"F32","shape":2,"data_offsets":[0,8]}})", 8));
  check(make_file(R"({"a":{"dtype":"F32","shape":[null],"data_offsets":[0,8]}})", 8));
  check(make_file("{" + tensor("a", "[2]", "[0]") + "}", 8));
  check(make_file("{" + tensor("a", "[2]", "[0,8,8]") + "}", 8));
  check(make_file("{" + tensor("a", "[2]", "[0,18446744073709551616]") + "}", 8));
  check(make_file("{" + tensor("a", "[2]", "[18446744073709551608,0]") + "}", 8));
  check(make_file("{" + tensor("a", "[2]", "[\"0\",8]") + "}", 8));
  check(make_file("{" + tensor("a", "[0]", "[4,4]") + "," + tensor("b", "[2]", "[0,8]") + "}",
                  8));  // one tensor inside another
  check(make_file(R"({"__metadata__":{},"__metadata__":{}})", 0));
  check(make_file(R"({"__metadata__":{"a":"1","a":"2"}})", 0));
  check(make_file(R"({"__metadata__":{"a":{"b":"1"}}})", 0));
  check(make_file(R"({"__metadata__":[]})", 0));
  check(make_file("{} {}", 0));
  check(make_file("{}x", 0));
  check(make_file(std::string("{}\0x", 4), 0));
  check(make_file("{\"a\":\"", 0));
  check(make_file(" {}", 0));
  check(make_file("{" + tensor("a", "[2]", "[0,8]") + "}", 7));
  CHECK_FALSE(refusal("/dev/null").empty());
  REQUIRE(::mkfifo((folder / "pipe").c_str(), 0600) == 0);
  CHECK_FALSE(refusal(folder / "pipe").empty());
  CHECK_FALSE(refusal(folder.path()).empty());
  CHECK_FALSE(refusal(folder / "missing").empty());
}

TEST_CASE("a header as long as the file is refused by its length without reading it", "[safetensors]") {
  const TemporaryFolder folder;
  const auto path = folder / "long";
  const std::uint64_t length = 10'000'001;
  std::string bytes(8, '\0');
  std::memcpy(bytes.data(), &length, 8);
  write_file(path, bytes + "{");
  std::filesystem::resize_file(path, 8 + length);  // sparse
  CHECK(refusal(path).find("10 MB") != std::string::npos);
}

TEST_CASE("everything that the format allows is read", "[safetensors]") {
  const TemporaryFolder folder;
  const auto path = folder / "good";
  for (
      const auto& [header, size] : {
          std::pair{"{}", 0},
          std::pair{"{}       ", 0},                                                 // padded
          std::pair{R"({"a":{"dtype":"F64","shape":[],"data_offsets":[0,8]}})", 8},  // a scalar
          std::pair{R"({"a":{"dtype":"I8","shape":[3,0],"data_offsets":[0,0]}})", 0},
          std::pair{
              R"({"b":{"dtype":"U8","shape":[1],"data_offsets":[2,3]},"a":{"dtype":"F16","shape":[1],"data_offsets":[0,2]}})",
              3},
          std::pair{R"({"a":{"data_offsets":[0,2],"shape":[1,1,1],"dtype":"BF16"},"__metadata__":{"x":""}})",
                    2},
      }) {
    CAPTURE(header);
    write_file(path, make_file(header, static_cast<std::size_t>(size)));
    CHECK(refusal(path).empty());
  }
}
