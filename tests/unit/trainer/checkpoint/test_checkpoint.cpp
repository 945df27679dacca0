// SPDX-License-Identifier: Apache-2.0
#include <sys/resource.h>

#include <csignal>
#include <cstring>
#include <iomanip>
#include <nlohmann/json.hpp>
#include <sstream>

#include "catch.hpp"
#include "checkpoint/checkpoint.hpp"
#include "checkpoint_arenas.hpp"
#include "content.hpp"
#include "files/hash.hpp"
#include "muster/error.hpp"
#include "temporary_folder.hpp"

using namespace muster;
using Catch::Matchers::ContainsSubstring;

namespace {

/// Reads a checkpoint into new arenas. Empty when it is good; otherwise the reason in one line.
std::string damage(const std::filesystem::path& path) {
  CheckpointArenas arenas;
  try {
    Checkpoint(path).read(arenas.table, arenas.tensors());
  } catch (const Error& error) {
    CHECK(std::string(error.what()).find('\n') == std::string::npos);
    return error.what();
  }
  return "";
}

/// The text of a state with these fields and their checksum.
std::string with_checksum(nlohmann::json fields) {
  fields.erase("checksum");
  const std::string text = fields.dump();
  std::ostringstream checksum;
  checksum << std::hex << std::setw(16) << std::setfill('0') << hash_bytes(text.data(), text.size());
  fields["checksum"] = checksum.str();
  return fields.dump();
}

}  // namespace

TEST_CASE("a checkpoint is read as it was written", "[checkpoint]") {
  const TemporaryFolder folder;
  const auto path = folder / "step-1";
  CheckpointArenas written, read;
  written.fill(1);
  TrainingState state = state_at(123);
  state.skipped = 2;
  write_checkpoint(path, state, written.table, written.tensors());
  const Checkpoint checkpoint(path);
  CHECK(checkpoint.state() == state);
  checkpoint.read(read.table, read.tensors());
  CHECK(read == written);
  CHECK_FALSE(std::filesystem::exists(folder / "step-1.partial"));

  const std::string bytes = content(path / "tensors.safetensors");
  std::uint64_t length = 0;
  std::memcpy(&length, bytes.data(), 8);
  CHECK(length % 8 == 0);
  const auto header = nlohmann::json::parse(bytes.substr(8, length));
  CHECK(header.at("token_embedding").at("shape") == nlohmann::json({256, 8}));
  CHECK(header.at("adamw.v.final_norm.bias").at("dtype") == "F32");
  CHECK(nlohmann::json::parse(content(path / "state.json")).at("samples") == 12 * 123);
}

TEST_CASE("a checkpoint of SGD holds its momentum alone", "[checkpoint]") {
  const TemporaryFolder folder;
  CheckpointArenas written, read;
  written.fill(1);
  written.moment2.clear();
  read.moment2.clear();
  TrainingState state = state_at(1);
  state.optimizer = "sgd";
  write_checkpoint(folder / "step-1", state, written.table, written.tensors());
  const Checkpoint checkpoint(folder / "step-1");
  CHECK(checkpoint.state() == state);
  checkpoint.read(read.table, read.tensors());
  CHECK(read == written);
  CHECK(content(folder / "step-1/tensors.safetensors").find("sgd.momentum.final_norm.bias") !=
        std::string::npos);
}

TEST_CASE("when a checkpoint cannot be written, the earlier one stays good", "[checkpoint]") {
  const TemporaryFolder folder;
  const auto path = folder / "step-1";
  CheckpointArenas arenas;
  arenas.fill(1);
  write_checkpoint(path, state_at(1), arenas.table, arenas.tensors());
  SECTION("nothing can be created") {
    const auto missing = folder / "none/step-1";
    CHECK_THROWS_AS(write_checkpoint(missing, state_at(1), arenas.table, arenas.tensors()), Error);
  }
  SECTION("the disk is full") {
    // Simulated: a limit on the size of the files that the process may write.
    struct rlimit before {};
    REQUIRE(::getrlimit(RLIMIT_FSIZE, &before) == 0);
    struct rlimit small = before;
    small.rlim_cur = 4096;
    ::signal(SIGXFSZ, SIG_IGN);
    REQUIRE(::setrlimit(RLIMIT_FSIZE, &small) == 0);
    CHECK_THROWS_AS(write_checkpoint(path, state_at(1), arenas.table, arenas.tensors()), Error);
    REQUIRE(::setrlimit(RLIMIT_FSIZE, &before) == 0);
  }
  CHECK(damage(path).empty());
  CHECK_FALSE(std::filesystem::exists(folder / "step-1.partial"));
}

TEST_CASE("a checkpoint replaces a damaged one of its step, and the leftovers of a killed process",
          "[checkpoint]") {
  const TemporaryFolder folder;
  const auto path = folder / "step-1";
  for (const char* name : {"step-1", "step-1.partial", "step-1.removed"}) {
    std::filesystem::create_directory(folder / name);
    write_file(folder / name / "state.json", "{");
  }
  CheckpointArenas arenas;
  write_checkpoint(path, state_at(1), arenas.table, arenas.tensors());
  CHECK(damage(path).empty());
  CHECK(std::distance(std::filesystem::directory_iterator(folder.path()), {}) == 1);
}

TEST_CASE("damaged and foreign checkpoints are refused", "[checkpoint]") {
  const TemporaryFolder folder;
  const auto path = folder / "step-1";
  CheckpointArenas arenas;
  arenas.fill(1);
  write_checkpoint(path, state_at(123), arenas.table, arenas.tensors());
  REQUIRE(damage(path).empty());
  const auto tensors = path / "tensors.safetensors", state = path / "state.json";
  const std::string good_tensors = content(tensors), good_state = content(state);
  SECTION("tensors cut off anywhere") {
    for (std::size_t size = 0; size < good_tensors.size(); size += 1 + size / 7) {
      write_file(tensors, good_tensors.substr(0, size));
      CHECK_FALSE(damage(path).empty());
    }
    write_file(tensors, good_tensors.substr(0, good_tensors.size() - 1));
    CHECK_FALSE(damage(path).empty());
  }
  SECTION("any byte of the state changed") {
    for (std::size_t at = 0; at < good_state.size(); ++at) {
      if (std::isspace(static_cast<unsigned char>(good_state[at]))) continue;
      std::string bytes = good_state;
      bytes[at] = static_cast<char>(bytes[at] ^ 1);
      write_file(state, bytes);
      CAPTURE(at);
      CHECK_FALSE(damage(path).empty());
    }
  }
  SECTION("one bit of a tensor flipped") {
    for (const std::size_t from_end : {std::size_t{1}, std::size_t{1000}, good_tensors.size() / 2}) {
      std::string bytes = good_tensors;
      char& byte = bytes[good_tensors.size() - from_end];
      byte = static_cast<char>(byte ^ 4);
      write_file(tensors, bytes);
      CHECK(damage(path).find("hash") != std::string::npos);
    }
  }
  SECTION("bytes after the end") {
    write_file(tensors, good_tensors + "x");
    CHECK_FALSE(damage(path).empty());
  }
  SECTION("tensors of another step") {
    arenas.fill(2);
    write_checkpoint(folder / "step-2", state_at(124), arenas.table, arenas.tensors());
    std::filesystem::copy_file(folder / "step-2/tensors.safetensors", tensors,
                               std::filesystem::copy_options::overwrite_existing);
    CHECK(damage(path).find("hash") != std::string::npos);
  }
  SECTION("a state that is missing, a folder, or too long") {
    std::filesystem::remove(state);
    CHECK(damage(path).find("state.json") != std::string::npos);
    std::filesystem::create_directory(state);
    CHECK_FALSE(damage(path).empty());
    std::filesystem::remove(state);
    write_file(state, good_state + std::string(100'000, ' '));
    CHECK_FALSE(damage(path).empty());
  }
  SECTION("another model") {
    const auto table = models::gpt_tensors({1, 2, 8, 7});
    std::vector<float> arena(table.arena_size);
    CHECK_THROWS_AS(Checkpoint(path).read(table, {arena, arena, arena}), Error);
  }
}

TEST_CASE("a state without dtype, from an older version, means fp32", "[checkpoint]") {
  TrainingState state = state_at(7);
  state.dtype = "bf16";
  const std::string now = write_state({state, 5});
  CHECK(parse_state(now).state == state);
  nlohmann::json before = nlohmann::json::parse(now);
  before.erase("dtype");
  state.dtype = "fp32";
  CHECK(parse_state(with_checksum(before)).state == state);
}

TEST_CASE("a state names the settings that changed since the checkpoint", "[checkpoint]") {
  TrainingState before = state_at(7), now = before;
  before.settings = {{"augment", "true"}, {"clip", "1"}, {"milestones", "10"}, {"removed", "1"}};
  now.settings = {{"augment", "false"}, {"clip", "1"}, {"milestones", ""}, {"added", "2"}};
  CHECK(describe_changed_settings(before, now) == "--augment=true, now false; --milestones=10, now not set");
  CHECK(describe_changed_settings(now, now) == "");
  const std::string text = write_state({before, 5});
  CHECK(parse_state(text).state == before);
  nlohmann::json older = nlohmann::json::parse(text);
  older.erase("settings");
  CHECK(parse_state(with_checksum(older)).state.settings.empty());
  older["settings"] = {{"clip", 1}};
  CHECK_THROWS_AS(parse_state(with_checksum(older)), std::runtime_error);
}

TEST_CASE("a state whose numbers do not fit is refused", "[checkpoint]") {
  const TrainingState state = state_at(7);
  const auto good = nlohmann::json::parse(write_state({state, 5}));
  REQUIRE(parse_state(with_checksum(good)).state == state);
  for (const nlohmann::json& odd : {nlohmann::json(-1), nlohmann::json("8"), nlohmann::json(true),
                                    nlohmann::json(1.5), nlohmann::json()}) {
    for (const char* name : {"seed", "step", "batch"}) {
      CAPTURE(name, odd.dump());
      auto fields = good;
      fields[name] = odd;
      CHECK_THROWS_AS(parse_state(with_checksum(fields)), std::runtime_error);
    }
  }
  auto fields = good;
  fields["seed"] = -1;
  CHECK_THROWS_WITH(parse_state(with_checksum(fields)), ContainsSubstring("its seed is negative"));
}
