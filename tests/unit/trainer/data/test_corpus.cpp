// SPDX-License-Identifier: Apache-2.0
#include "catch.hpp"
#include "data/corpus.hpp"
#include "data/shard.hpp"
#include "refusal.hpp"
#include "temporary_folder.hpp"

using muster::Error;
using muster::data::Corpus;
using muster::data::Token;
using muster::data::TokenSequence;
namespace fs = std::filesystem;

namespace {

std::string read_text(const TokenSequence& tokens) {
  std::vector<Token> copy(tokens.size());
  tokens.copy(0, copy.size(), 256, copy.data());
  return {copy.begin(), copy.end()};
}

}  // namespace

TEST_CASE("a file is split into training and held-out text", "[corpus]") {
  const TemporaryFolder folder;
  write_file(folder / "a", "0123456789abcdefghij");
  const Corpus corpus = Corpus::read(folder / "a", 0.1);
  CHECK(read_text(corpus.training()) == "0123456789abcdefgh");
  CHECK(corpus.held_out_size() == 2);
  CHECK(read_text(corpus.validation_sequence()) == "hij");
  const Corpus all = Corpus::read(folder / "a", 0);
  CHECK(all.training().size() == 20);
  CHECK(all.validation_sequence().empty());
}

TEST_CASE("each real file of a folder is read once, in order", "[corpus]") {
  const TemporaryFolder folder;
  fs::create_directory(folder / "sub");
  write_file(folder / "b", "BBBB");
  write_file(folder / "a", "AAAA");
  write_file(folder / "sub/c", "CCCC");
  fs::create_symlink("b", folder / "another-name-of-b");
  fs::create_symlink(folder.path(), folder / "sub/loop");
  fs::create_symlink("nowhere", folder / "broken");
  const Corpus corpus = Corpus::read(folder.path(), 0);
  CHECK(read_text(corpus.training()) == "AAAABBBBCCCC");
  CHECK(corpus.file_count() == 3);
  fs::create_directory_symlink(folder.path(), folder / "link");
  CHECK(Corpus::read(folder / "link", 0).hash() == corpus.hash());
  write_file(folder / "b", "BBXB");
  CHECK(Corpus::read(folder.path(), 0).hash() != corpus.hash());
}

TEST_CASE("unusable data is refused in one line that names it", "[corpus]") {
  const TemporaryFolder folder;
  write_file(folder / "empty", "");
  write_file(folder / "tiny", "abc");
  fs::create_directory(folder / "nothing");
  const auto message = [&](const fs::path& path) {
    return usage_error_text([&] { Corpus::read(path, 0.1); });
  };
  for (const std::string name : {"missing", "empty", "tiny", "nothing"}) {
    const std::string text = message(folder / name);
    CAPTURE(name, text);
    CHECK(text.find((folder / name).string()) != std::string::npos);
  }
  CHECK(message("/dev/null").find("neither") != std::string::npos);
  CHECK(message(folder / "missing").find("muster-train make-data generates some") != std::string::npos);
  write_file(folder / "tiny", "a");
  CHECK(message(folder / "tiny").find("it has only 1 byte, too few") != std::string::npos);
}

TEST_CASE("a whole corpus holds nothing out", "[corpus]") {
  const TemporaryFolder folder;
  write_file(folder / "a", "0123456789");
  const Corpus whole = Corpus::read_whole(folder / "a");
  CHECK(read_text(whole.training()) == "0123456789");
  CHECK(whole.validation_sequence().empty());
  const std::vector<Token> tokens{1, 2, 3};
  muster::data::write_shard(folder / "x_train_0.bin", tokens);
  muster::data::write_shard(folder / "x_val_0.bin", tokens);
  CHECK(Corpus::read_whole(folder / "x_val_0.bin").training().size() == 3);
  CHECK(Corpus::read_whole(folder / "x_train_0.bin").training().size() == 3);
  const std::string text = usage_error_text([&] { Corpus::read_whole(folder.path()); });
  CHECK_THAT(text, Catch::Matchers::ContainsSubstring("name those of one kind"));
}

TEST_CASE("a shard that is not complete is refused", "[corpus]") {
  const TemporaryFolder folder;
  const std::vector<Token> tokens{1, 2, 3};
  write_file(folder / "x_train_0.bin.partial", "text");
  const std::string text = usage_error_text([&] { Corpus::read(folder.path(), 0); });
  CHECK_THAT(text, Catch::Matchers::ContainsSubstring("x_train_0.bin.partial is incomplete: remove it"));
  muster::data::write_shard(folder / "x_train_1.bin", tokens);
  CHECK_FALSE(usage_error_text([&] { Corpus::read(folder.path(), 0); }).empty());
}

TEST_CASE("shards have the tokenizer that lies beside them", "[corpus]") {
  const TemporaryFolder folder;
  const std::vector<Token> tokens{1, 2, 3};
  for (const char* name : {"one", "two"}) {
    fs::create_directory(folder / name);
    muster::data::write_shard(folder / name / "x_train_0.bin", tokens);
    muster::data::write_shard(folder / name / "x_val_0.bin", tokens);
  }
  CHECK(Corpus::read(folder.path(), 0.1).tokenizer_file().empty());
  write_file(folder / "one/tokenizer.json", "{\"a\": 1}");
  CHECK(Corpus::read(folder / "one", 0.1).tokenizer_file() == "{\"a\": 1}");
  write_file(folder / "two/tokenizer.json", "{\"a\": 2}");
  const std::string text = usage_error_text([&] { Corpus::read(folder.path(), 0.1); });
  CHECK_THAT(text, Catch::Matchers::ContainsSubstring("differs from the tokenizer of other shards"));
}
