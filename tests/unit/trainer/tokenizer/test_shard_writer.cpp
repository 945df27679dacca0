// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <filesystem>

#include "catch.hpp"
#include "data/corpus.hpp"
#include "temporary_folder.hpp"
#include "tokenizer/shard_writer.hpp"
#include "trainer/data/refusal.hpp"

using namespace muster;
using tokenizer::ShardWriter;
using tokenizer::TokenId;

namespace {

std::vector<std::string> names_in(const std::filesystem::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

ShardWriter writer(const TemporaryFolder& folder, const char* split = "train") {
  return {folder.path(), split, "{}", 300, 2};
}

constexpr TokenId tokens[] = {1, 2, 3, 4, 5};

}  // namespace

TEST_CASE("shards have their names when all of them are written", "[shard_writer]") {
  const TemporaryFolder folder;
  auto shards = writer(folder);
  shards.add(tokens);
  CHECK(names_in(folder.path()) == std::vector<std::string>{"tokenizer.json",
                                                            "tokens_train_000000.bin.partial",
                                                            "tokens_train_000001.bin.partial"});
  CHECK_FALSE(usage_error_text([&] { data::Corpus::read(folder.path(), 0); }).empty());
  shards.finish();
  CHECK(shards.count() == 3);
  CHECK(data::Corpus::read(folder.path(), 0).training().size() == 5);
}

TEST_CASE("shards of a run that fails are removed", "[shard_writer]") {
  const TemporaryFolder folder;
  writer(folder).add(tokens);
  CHECK(names_in(folder.path()) == std::vector<std::string>{"tokenizer.json"});
}

TEST_CASE("a folder with any shard of the same split is refused", "[shard_writer]") {
  const TemporaryFolder folder;
  for (const char* name : {"tokens_train_000007.bin", "tokens_train_000007.bin.partial"}) {
    write_file(folder / name, "");
    const std::string text = usage_error_text([&] { writer(folder); });
    CHECK_THAT(text, Catch::Matchers::ContainsSubstring((folder / name).string() + " exists: remove " +
                                                        (folder / "tokens_train_*").string()));
    std::filesystem::remove(folder / name);
  }
  write_file(folder / "tokens_val_000000.bin", "");
  CHECK(usage_error_text([&] { writer(folder); }).empty());
}
