// SPDX-License-Identifier: Apache-2.0
#include "catch.hpp"
#include "checkpoint/checkpoint_folder.hpp"
#include "checkpoint/checkpoint_writer.hpp"
#include "checkpoint_arenas.hpp"
#include "content.hpp"
#include "muster/error.hpp"
#include "temporary_folder.hpp"
#include "trainer/data/refusal.hpp"

using namespace muster;

namespace {

struct KeptCheckpoints {
  TemporaryFolder temporary;
  CheckpointArenas arenas;
  std::vector<std::string> skipped;

  CheckpointFolder open(std::int64_t keep) {
    CheckpointFolder folder(temporary / "run/checkpoints", keep);
    folder.open();
    return folder;
  }
  std::filesystem::path save(CheckpointFolder& folder, std::int64_t step) {
    arenas.fill(static_cast<std::uint64_t>(step));
    return folder.save(state_at(step), arenas.table, arenas.tensors());
  }
  /// The step of the newest good checkpoint, or -1.
  std::int64_t newest(CheckpointFolder& folder) {
    skipped.clear();
    const auto found = folder.read_newest(
        arenas.table, arenas.tensors(), [](const TrainingState&) {},
        [&](const std::string& why) { skipped.push_back(why); });
    if (!found) return -1;
    CheckpointArenas expected;
    expected.fill(static_cast<std::uint64_t>(found->state.step));
    CHECK(arenas == expected);
    return found->state.step;
  }
};

using Steps = std::vector<std::int64_t>;

}  // namespace

TEST_CASE("the newest checkpoints are kept, as many as requested", "[checkpoint_folder]") {
  KeptCheckpoints kept;
  auto three = kept.open(3);
  CHECK(three.steps().empty());
  CHECK(kept.newest(three) == -1);
  for (const std::int64_t step : {9, 10, 100, 1000}) kept.save(three, step);
  CHECK(three.steps() == Steps{1000, 100, 10});
  auto one = kept.open(1);
  kept.save(one, 123456789012);
  CHECK(one.steps() == Steps{123456789012});
  CHECK(kept.newest(one) == 123456789012);
  CHECK(kept.skipped.empty());
}

TEST_CASE("each damaged checkpoint is reported, and the newest good one is used", "[checkpoint_folder]") {
  KeptCheckpoints kept;
  auto before = kept.open(4);
  for (const std::int64_t step : {10, 20, 30, 40}) kept.save(before, step);
  std::filesystem::remove(before.checkpoint_path(40) / "state.json");
  std::filesystem::resize_file(before.checkpoint_path(30) / "tensors.safetensors", 1000);
  auto folder = kept.open(2);
  CHECK(kept.newest(folder) == 20);
  REQUIRE(kept.skipped.size() == 2);
  CHECK(kept.skipped[0].find(folder.checkpoint_path(40).string()) != std::string::npos);
  CHECK(kept.skipped[0].find("state.json") != std::string::npos);
  CHECK(kept.skipped[1].find(folder.checkpoint_path(30).string()) != std::string::npos);

  // Damaged checkpoints do not count as kept ones, and are removed once newer good ones exist.
  kept.save(folder, 25);
  CHECK(folder.steps() == Steps{40, 30, 25, 20});
  kept.save(folder, 30);
  CHECK(folder.steps() == Steps{40, 30, 25});
  kept.save(folder, 45);
  CHECK(folder.steps() == Steps{45, 40, 30});
  kept.save(folder, 50);
  CHECK(folder.steps() == Steps{50, 45});

  for (const std::int64_t step : folder.steps()) write_file(folder.checkpoint_path(step) / "state.json", "");
  auto all_damaged = kept.open(2);
  CHECK_THROWS_AS(kept.newest(all_damaged), Error);
  CHECK(kept.skipped.size() == 2);
}

TEST_CASE("a checkpoint with one changed bit is reported, and the one before is used",
          "[checkpoint_folder]") {
  KeptCheckpoints kept;
  auto folder = kept.open(3);
  for (const std::int64_t step : {10, 20}) kept.save(folder, step);
  const auto tensors = folder.checkpoint_path(20) / "tensors.safetensors";
  std::string bytes = content(tensors);
  bytes.back() = static_cast<char>(bytes.back() ^ 1);
  write_file(tensors, bytes);
  CHECK(kept.newest(folder) == 10);
  REQUIRE(kept.skipped.size() == 1);
  CHECK(kept.skipped[0].find(folder.checkpoint_path(20).string()) != std::string::npos);
  CHECK(kept.skipped[0].find("hash") != std::string::npos);
}

TEST_CASE("a checkpoint of a newer format is not skipped, and none is called damaged",
          "[checkpoint_folder]") {
  KeptCheckpoints kept;
  auto folder = kept.open(3);
  for (const std::int64_t step : {10, 20, 30}) kept.save(folder, step);
  const auto newer = folder.checkpoint_path(20), damaged = folder.checkpoint_path(30);
  write_file(damaged / "state.json", "{}");
  std::string state = content(newer / "state.json");
  const std::size_t at = state.find("muster-train 2");
  REQUIRE(at != std::string::npos);
  for (const char* format : {"muster-train 3", "muster-train 12"}) {
    write_file(newer / "state.json", std::string(state).replace(at, 14, format));
    const std::string text = usage_error_text([&] { kept.newest(folder); });
    CAPTURE(text);
    CHECK(text.find("a newer muster-train wrote " + newer.string() + " ") == 0);
    CHECK(text.find(std::string("'") + format + "'") != std::string::npos);
    CHECK(text.find("damaged") == std::string::npos);
    CHECK(kept.skipped.size() == 1);
  }
  for (const char* format : {"muster-train 1", "muster-train 03", "muster-train 3x", "muster-train -3"}) {
    write_file(newer / "state.json", std::string(state).replace(at, 14, format));
    CHECK(kept.newest(folder) == 10);
  }
}

TEST_CASE("partly written checkpoints and other files are ignored", "[checkpoint_folder]") {
  KeptCheckpoints kept;
  auto folder = kept.open(2);
  const auto good = kept.save(folder, 10);
  for (const char* name :
       {"step-00000020.partial", "step-00000005.removed", "step-20", "step-00000020x", "other"})
    std::filesystem::copy(good, good.parent_path() / name);
  CHECK(folder.steps() == Steps{10});
  auto again = kept.open(2);
  CHECK_FALSE(std::filesystem::exists(good.parent_path() / "step-00000020.partial"));
  CHECK_FALSE(std::filesystem::exists(good.parent_path() / "step-00000005.removed"));
  CHECK(std::filesystem::exists(good.parent_path() / "other"));
}

TEST_CASE("a refused state ends the search before tensors are read", "[checkpoint_folder]") {
  KeptCheckpoints kept;
  auto folder = kept.open(2);
  kept.save(folder, 10);
  kept.save(folder, 20);
  CheckpointArenas before = kept.arenas;
  const auto refuse = [](const TrainingState& state) {
    CHECK(state.step == 20);
    throw Error(ErrorCode::usage, "another model");
  };
  CHECK_THROWS_WITH(folder.read_newest(kept.arenas.table, kept.arenas.tensors(), refuse, [](const auto&) {}),
                    "another model");
  CHECK(kept.arenas == before);
}

TEST_CASE("starting anew moves earlier checkpoints aside", "[checkpoint_folder]") {
  KeptCheckpoints kept;
  auto folder = kept.open(2);
  CHECK_FALSE(folder.set_aside());
  for (const int number : {1, 2}) {
    kept.save(folder, 10);
    const auto aside = folder.set_aside();
    REQUIRE(aside);
    CHECK(*aside == kept.temporary / ("run/checkpoints.before-" + std::to_string(number)));
    CHECK(std::filesystem::exists(*aside / "step-00000010/state.json"));
    CHECK(folder.steps().empty());
  }
}

TEST_CASE("while updates are skipped, no checkpoint is removed", "[checkpoint_folder]") {
  KeptCheckpoints kept;
  auto folder = kept.open(1);
  kept.save(folder, 10);
  TrainingState state = state_at(12);
  state.skipped = 2;
  folder.save(state, kept.arenas.table, kept.arenas.tensors());
  CHECK(folder.steps() == Steps{12, 10});
}

TEST_CASE("a checkpoint that is written during training has the state of its start", "[checkpoint_folder]") {
  KeptCheckpoints kept;
  auto folder = kept.open(2);
  CheckpointWriter writer(folder, kept.arenas.table);
  CHECK_FALSE(writer.poll());
  CHECK_FALSE(writer.wait());
  for (const std::int64_t step : {10, 20}) {
    kept.arenas.fill(static_cast<std::uint64_t>(step));
    kept.arenas.copy_to(writer.copy_buffers());
    writer.start(state_at(step));
    kept.arenas.fill(99);
    const auto written = writer.wait();
    REQUIRE(written);
    CHECK(written->path == folder.checkpoint_path(step));
    CHECK(written->state == state_at(step));
    CHECK_FALSE(writer.poll());
    CHECK(kept.newest(folder) == step);
  }
  // A write error is thrown once, by the next poll() or wait().
  std::filesystem::remove_all(kept.temporary / "run");
  write_file(kept.temporary / "run", "");
  kept.arenas.copy_to(writer.copy_buffers());
  writer.start(state_at(30));
  CHECK_THROWS_AS(writer.wait(), Error);
  CHECK_FALSE(writer.wait());
}

TEST_CASE("a writer's destructor completes the checkpoint that was started", "[checkpoint_folder]") {
  KeptCheckpoints kept;
  auto folder = kept.open(2);
  kept.arenas.fill(10);
  {
    CheckpointWriter writer(folder, kept.arenas.table);
    kept.arenas.copy_to(writer.copy_buffers());
    writer.start(state_at(10));
  }
  CHECK(kept.newest(folder) == 10);
}
