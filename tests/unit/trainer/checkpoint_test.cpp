// SPDX-License-Identifier: Apache-2.0
#include "checkpoint.hpp"

#include <cstring>
#include <nlohmann/json.hpp>

#include "catch.hpp"
#include "models/gpt.hpp"
#include "muster/error.hpp"
#include "muster/philox.hpp"
#include "safetensors.hpp"
#include "temporary_folder.hpp"

using namespace muster;

namespace {

const std::string model = "gpt layers=1 heads=2 width=8 context=6";

struct Arenas {
  models::TensorTable table = models::gpt_tensors({1, 2, 8, 6});
  std::vector<float> parameters = std::vector<float>(table.arena_size), moment1 = parameters,
                     moment2 = parameters;

  TrainingTensors tensors() { return {parameters, moment1, moment2}; }
  void fill(std::uint64_t seed) {
    for (const auto& tensor : table.tensors) {
      for (std::size_t i = tensor.offset; i < tensor.offset + tensor.count; ++i) {
        parameters[i] = static_cast<float>(normal(seed, 1, i));
        moment1[i] = static_cast<float>(normal(seed, 2, i));
        moment2[i] = static_cast<float>(normal(seed, 3, i));
      }
    }
  }
};

TrainingState some_state() { return {123, 1476, 18446744073709551615u, 12, 0xfedcba9876543210u, model}; }

/// A file with this header and `data_size` zero bytes behind it.
std::string file_of(const std::string& header, std::size_t data_size) {
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

TEST_CASE("a checkpoint comes back as it was", "[checkpoint]") {
  const TemporaryFolder folder;
  const auto path = folder / "checkpoint.safetensors";
  Arenas written, read;
  written.fill(1);
  write_checkpoint(path, some_state(), written.table, written.tensors());
  const TrainingState state = read_checkpoint(path, model, read.table, read.tensors());
  CHECK(state.step == 123);
  CHECK(state.samples == 1476);
  CHECK(state.seed == some_state().seed);
  CHECK(state.batch == 12);
  CHECK(state.data_hash == some_state().data_hash);
  CHECK(read.parameters == written.parameters);
  CHECK(read.moment1 == written.moment1);
  CHECK(read.moment2 == written.moment2);
  CHECK_FALSE(std::filesystem::exists(folder / "checkpoint.safetensors.partial"));

  const std::string bytes = read_file(path);
  std::uint64_t length = 0;
  std::memcpy(&length, bytes.data(), 8);
  CHECK(length % 8 == 0);
  const auto header = nlohmann::json::parse(bytes.substr(8, length));
  CHECK(header.at("token_embedding").at("shape") == nlohmann::json({256, 8}));
  CHECK(header.at("adamw.v.final_norm.bias").at("dtype") == "F32");
}

TEST_CASE("a checkpoint that cannot be written leaves the earlier one good", "[checkpoint]") {
  const TemporaryFolder folder;
  const auto path = folder / "checkpoint.safetensors";
  Arenas arenas, read;
  arenas.fill(1);
  write_checkpoint(path, some_state(), arenas.table, arenas.tensors());
  const std::string before = read_file(path);
  // A folder in the partial file's place: creating it fails, whoever runs this.
  std::filesystem::create_directory(folder / "checkpoint.safetensors.partial");
  arenas.fill(2);
  CHECK_THROWS_AS(write_checkpoint(path, some_state(), arenas.table, arenas.tensors()), Error);
  CHECK(read_file(path) == before);
  CHECK_NOTHROW(read_checkpoint(path, model, read.table, read.tensors()));
}

TEST_CASE("damaged and foreign checkpoints are refused", "[checkpoint]") {
  const TemporaryFolder folder;
  const auto path = folder / "checkpoint.safetensors";
  Arenas arenas;
  arenas.fill(1);
  write_checkpoint(path, some_state(), arenas.table, arenas.tensors());
  const std::string good = read_file(path);
  const auto refused = [&](const std::string& bytes) {
    write_file(path, bytes);
    try {
      read_checkpoint(path, model, arenas.table, arenas.tensors());
    } catch (const Error& error) {
      CHECK(std::string(error.what()).find('\n') == std::string::npos);
      return true;
    }
    return false;
  };
  REQUIRE_FALSE(refused(good));
  SECTION("cut off anywhere") {
    for (std::size_t size = 0; size < good.size(); size += 1 + size / 7) CHECK(refused(good.substr(0, size)));
    CHECK(refused(good.substr(0, good.size() - 1)));
  }
  SECTION("one bit of a tensor flipped") {
    std::string bytes = good;
    bytes[good.size() - 1000] = static_cast<char>(bytes[good.size() - 1000] ^ 4);
    CHECK(refused(bytes));
  }
  SECTION("something behind the end") { CHECK(refused(good + "x")); }
  SECTION("metadata of another shape or none") {
    for (const auto& [from, to] :
         {std::pair{"\"step\":\"123\"", "\"step\":\"-23\""},
          std::pair{"\"step\":\"123\"", "\"stop\":\"123\""}, std::pair{"muster-train 1", "muster-train 9"},
          std::pair{"heads=2", "heads=1"}}) {
      std::string bytes = good;
      bytes.replace(bytes.find(from), std::strlen(from), to);
      CHECK(refused(bytes));
    }
  }
  SECTION("another model") {
    write_file(path, good);
    CHECK_THROWS_AS(read_checkpoint(path, "gpt layers=2", arenas.table, arenas.tensors()), Error);
    CHECK_THROWS_AS(read_checkpoint(path, model, models::gpt_tensors({1, 2, 8, 7}), arenas.tensors()), Error);
  }
}

TEST_CASE("hostile safetensors headers are refused without harm", "[checkpoint]") {
  const TemporaryFolder folder;
  const auto path = folder / "hostile";
  const auto check = [&](const std::string& bytes) {
    write_file(path, bytes);
    const std::string text = refusal(path);
    CAPTURE(text);
    CHECK_FALSE(text.empty());
    CHECK(text.find('\n') == std::string::npos);
  };
  const auto tensor = [](const std::string& name, const std::string& shape, const std::string& offsets) {
    return "\"" + name + R"(":{"dtype":"F32","shape":)" + shape + R"(,"data_offsets":)" + offsets + "}";
  };
  REQUIRE(refusal((write_file(path, file_of("{" + tensor("a", "[2]", "[0,8]") + "}", 8)), path)).empty());
  check("");
  check("1234567");
  check(std::string(8, '\xff'));              // a header of 2^64 - 1 bytes
  check(std::string("\0\0\0\0\1\0\0\0", 8));  // of 4 GiB
  check(file_of("", 0));
  check(file_of("[]", 0));
  check(file_of("{", 0));
  check(file_of("{\"a\xff\":1}", 0));           // not UTF-8
  check(file_of(std::string(100000, '['), 0));  // deep nesting
  check(file_of("{\"a\":" + std::string(100000, '['), 0));
  check(file_of("{\"a\":5}", 0));
  check(file_of("{\"__metadata__\":{\"a\":5}}", 0));
  check(
      file_of("{" + tensor("a", "[2]", "[0,8]") + "," + tensor("b", "[2]", "[4,12]") + "}", 12));  // overlap
  check(file_of("{" + tensor("a", "[2]", "[0,8]") + "," + tensor("b", "[2]", "[0,8]") + "}",
                8));  // the same bytes
  check(file_of("{" + tensor("a", "[2]", "[0,8]") + "," + tensor("b", "[2]", "[12,20]") + "}", 20));  // hole
  check(file_of("{" + tensor("a", "[2]", "[0,8]") + "," + tensor("a", "[2]", "[8,16]") + "}",
                16));                                            // a name twice
  check(file_of("{" + tensor("a", "[2]", "[4,12]") + "}", 12));  // hole at the start
  check(file_of("{" + tensor("a", "[2]", "[8,0]") + "}", 8));
  check(file_of("{" + tensor("a", "[3]", "[0,8]") + "}", 8));
  check(file_of("{" + tensor("a", "[-2]", "[0,8]") + "}", 8));
  check(file_of("{" + tensor("a", "[2.0]", "[0,8]") + "}", 8));
  check(file_of("{" + tensor("a", "[4611686018427387904,4]", "[0,0]") + "}",
                0));  // 2^62 * 4 * 4 overflows to 0
  check(file_of("{" + tensor("a", "[1,1,1,1,1,1,1,1,1]", "[0,4]") + "}", 4));
  check(file_of(R"({"a":{"dtype":"F31","shape":[2],"data_offsets":[0,8]}})", 8));
  check(file_of(R"({"a\n\u0007b":{"dtype":"F31\n","shape":[2],"data_offsets":[0,8]}})", 8));
  check(file_of(R"({"a":{"dtype":"F32","data_offsets":[0,8]}})", 8));
  check(file_of("{" + tensor("a", "[2]", "[0,8]") + "}", 7));
  CHECK_FALSE(refusal("/dev/null").empty());
  CHECK_FALSE(refusal(folder.path()).empty());
  CHECK_FALSE(refusal(folder / "missing").empty());
}
