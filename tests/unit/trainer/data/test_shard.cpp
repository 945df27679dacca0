// SPDX-License-Identifier: Apache-2.0
#include <numeric>
#include <set>

#include "catch.hpp"
#include "content.hpp"
#include "data/corpus.hpp"
#include "data/sample_windows.hpp"
#include "data/shard.hpp"
#include "muster/error.hpp"
#include "refusal.hpp"
#include "temporary_folder.hpp"

using namespace muster;
using data::Corpus;
using data::Token;
namespace fs = std::filesystem;

namespace {

std::vector<Token> counting(std::size_t count, int first = 0) {
  std::vector<Token> tokens(count);
  std::iota(tokens.begin(), tokens.end(), static_cast<Token>(first));
  return tokens;
}

std::vector<Token> all_of(const data::TokenSequence& tokens) {
  std::vector<Token> copy(tokens.size());
  tokens.copy(0, copy.size(), compute::most_tokens_in_vocabulary, copy.data());
  return copy;
}

std::string corpus_refusal(const std::string& where, double fraction = 0) {
  return usage_error_text([&] { Corpus::read(where, fraction); });
}

}  // namespace

TEST_CASE("a shard is read as it was written, and has llm.c's layout", "[shard]") {
  const TemporaryFolder folder;
  const auto path = folder / "a.bin";
  const std::vector<Token> tokens{0, 1, 255, 256, 50256, 65535};
  data::write_shard(path, tokens);
  const std::string bytes = content(path);
  REQUIRE(bytes.size() == 1024 + 12);
  // 20240520 = 0x0134d888, as an int32 of the file.
  CHECK(bytes.substr(0, 12) == std::string("\x88\xd8\x34\x01\x01\0\0\0\x06\0\0\0", 12));
  CHECK(bytes.substr(1024, 4) == std::string("\0\0\x01\0", 4));
  CHECK(bytes.substr(1024 + 8, 2) == "\x50\xc4");
  const Corpus corpus = Corpus::read(path, 0);
  CHECK(corpus.has_shards());
  CHECK(all_of(corpus.training()) == tokens);
}

TEST_CASE("a large vocabulary's shard has llm.c's layout for Llama 3", "[shard]") {
  const TemporaryFolder folder;
  const auto path = folder / "a.bin";
  const std::vector<Token> tokens{0, 255, 65536, 128255};
  data::write_shard(path, tokens, 128256);
  const std::string good = content(path);
  REQUIRE(good.size() == 1024 + 16);
  // 20240801 = 0x0134d9a1, and version 7.
  CHECK(good.substr(0, 12) == std::string("\xa1\xd9\x34\x01\x07\0\0\0\x04\0\0\0", 12));
  CHECK(good.substr(1024 + 8, 8) == std::string("\0\0\x01\0\xff\xf4\x01\0", 8));
  CHECK(all_of(Corpus::read(path, 0).training()) == tokens);
  write_file(path, std::string(good).replace(4, 1, "\x01"));
  CHECK(corpus_refusal(path).find("version at byte 4 is 1 and not 7") != std::string::npos);
  write_file(path, good.substr(0, good.size() - 2));
  CHECK(corpus_refusal(path).find("4 tokens of 4 bytes, but 14 bytes") != std::string::npos);
  write_file(path, good);
  data::write_shard(folder / "b.bin", counting(3));  // its tokens have two bytes
  const Corpus both = Corpus::read(folder.path(), 0);
  CHECK(all_of(both.training()) == std::vector<Token>{0, 255, 65536, 128255, 0, 1, 2});
  std::vector<Token> to(2);
  CHECK(usage_error_text([&] { both.training().copy(2, 2, 128255, to.data()); })
            .find("a.bin: token 128255 at position 3 is not below --vocabulary 128255 (Llama 3's is "
                  "128256)") != std::string::npos);
}

TEST_CASE("shards are found by file, folder, list and pattern; validation shards are held out", "[shard]") {
  const TemporaryFolder folder;
  fs::create_directory(folder / "set");
  data::write_shard(folder / "set/text_train_000001.bin", counting(10));
  data::write_shard(folder / "set/text_train_000002.bin", counting(20, 10));
  data::write_shard(folder / "set/text_val_000000.bin", counting(7, 1000));
  write_file(folder / "set/README", "about these shards");
  const std::string set = (folder / "set").string();
  for (const std::string& where :
       {set, set + "/*.bin", set + "/text_train_*.bin," + set + "/text_val_000000.bin",
        set + "/text_val_*," + set + "/text_train_000002.bin," + set + "/text_train_000001.bin"}) {
    CAPTURE(where);
    const Corpus corpus = Corpus::read(where, 0.1);
    CHECK(corpus.file_count() == 3);
    CHECK(all_of(corpus.training()) == counting(30));
    CHECK(all_of(corpus.validation_sequence()) == counting(7, 1000));
    CHECK(corpus.held_out_size() == 6);
    CHECK(corpus.hash() == Corpus::read(set, 0.1).hash());
  }
  const Corpus few = Corpus::read(set, 0.1, 3);
  CHECK(all_of(few.validation_sequence()) == counting(4, 1000));
  CHECK(few.held_out_size() == 3);
  CHECK(all_of(few.training()) == counting(30));
  CHECK(Corpus::read(set, 0.1, 7).held_out_size() == 6);
  const Corpus none = Corpus::read(set, 0);
  CHECK(none.held_out_size() == 0);
  CHECK(all_of(none.training()) == counting(30));
  const Corpus cut = Corpus::read(set + "/text_train*", 0.1);
  CHECK(all_of(cut.training()) == counting(27));
  CHECK(all_of(cut.validation_sequence()) == counting(4, 26));
  CHECK(corpus_refusal(set + "/text_val*", 0.1).find("_val_") != std::string::npos);
  CHECK(corpus_refusal(set + "/text_val*").find("empty") != std::string::npos);
  CHECK(corpus_refusal(set + "/nothing*").find("no file matches") != std::string::npos);
  CHECK(corpus_refusal(set + "/text_val*,").find("empty") != std::string::npos);
}

TEST_CASE("a link's name decides the kind of a file, as in a cache that names files by their hashes",
          "[shard]") {
  const TemporaryFolder folder;
  fs::create_directories(folder / "blobs");
  fs::create_directories(folder / "set");
  data::write_shard(folder / "blobs/5ad1", counting(10));
  data::write_shard(folder / "blobs/1c0b", counting(7, 1000));
  fs::create_symlink(folder / "blobs/5ad1", folder / "set/text_train_000001.bin");
  fs::create_symlink(folder / "blobs/1c0b", folder / "set/text_val_000000.bin");
  const std::string set = (folder / "set").string();
  for (const std::string& where : {set, set + "/*.bin", set + "/*_val_*.bin," + set + "/*_train_*.bin"}) {
    const Corpus corpus = Corpus::read(where, 0.1);
    CHECK(all_of(corpus.training()) == counting(10));
    CHECK(all_of(corpus.validation_sequence()) == counting(7, 1000));
  }
}

TEST_CASE("an invalid shard is refused with file, position and the value found there", "[shard]") {
  const TemporaryFolder folder;
  const auto path = folder / "bad.bin";
  data::write_shard(path, counting(5));
  const std::string good = content(path);
  const auto refused = [&](const std::string& bytes, const std::string& why) {
    write_file(path, bytes);
    const std::string text = corpus_refusal(path);
    CAPTURE(text, why);
    CHECK(text.find(path.string()) != std::string::npos);
    CHECK(text.find(why) != std::string::npos);
  };
  const auto with = [&](std::size_t at, char value) {
    std::string bytes = good;
    bytes[at] = value;
    return bytes;
  };
  refused("", "0 bytes");
  refused(good.substr(0, 1023), "1023 bytes");
  refused(with(0, '\x07'), "byte 0");
  refused(with(4, 2), "version at byte 4 is 2");
  refused(with(8, 6), "6 tokens of 2 bytes, but 10 bytes");
  refused(with(8, 4), "4 tokens of 2 bytes, but 10 bytes");
  refused(with(11, '\x80'), "-2147483643 tokens");
  refused(good.substr(0, good.size() - 1), "5 tokens of 2 bytes, but 9 bytes");
  refused(good + "x", "5 tokens of 2 bytes, but 11 bytes");
  write_file(path, good);
  CHECK(corpus_refusal(path).empty());
}

TEST_CASE("a token beyond the vocabulary is refused with its file and position", "[shard]") {
  const TemporaryFolder folder;
  auto tokens = counting(50);
  data::write_shard(folder / "a.bin", tokens);
  tokens[33] = 300;
  data::write_shard(folder / "b.bin", tokens);
  const Corpus corpus = Corpus::read(folder.path(), 0.1);
  std::vector<Token> to(20);
  CHECK_NOTHROW(corpus.training().copy(60, 20, 256, to.data()));
  CHECK_NOTHROW(corpus.training().copy(45, 20, 256, to.data()));  // across the boundary
  CHECK(to[4] == 49);
  CHECK(to[5] == 0);
  CHECK_NOTHROW(corpus.training().copy(70, 20, 301, to.data()));
  try {
    corpus.training().copy(70, 20, 300, to.data());
    FAIL("accepted");
  } catch (const Error& error) {
    const std::string text = error.what();
    CAPTURE(text);
    CHECK(text.find((folder / "b.bin").string() + ": token 300 at position 33 ") != std::string::npos);
    CHECK(text.find("--vocabulary 300") != std::string::npos);
  }
}

TEST_CASE("an epoch over shards uses each token once as a target, also across boundaries", "[shard]") {
  const TemporaryFolder folder;
  data::write_shard(folder / "a.bin", counting(333));
  data::write_shard(folder / "b.bin", counting(1, 333));
  data::write_shard(folder / "c.bin", counting(667, 334));
  const Corpus corpus = Corpus::read(folder.path(), 0);
  const data::SampleWindows windows(corpus.training().size(), 10, 3);
  std::multiset<Token> targets;
  std::vector<Token> window(11);
  for (std::uint64_t sample = 0; sample < windows.per_epoch(); ++sample) {
    corpus.training().copy(windows.start(sample), 11, 1001, window.data());
    for (int i = 1; i <= 10; ++i) REQUIRE(window[static_cast<std::size_t>(i)] == window[0] + i);
    targets.insert(window.begin() + 1, window.end());
  }
  CHECK(targets.size() == windows.per_epoch() * 10);
  CHECK(std::set<Token>(targets.begin(), targets.end()).size() == targets.size());
  CHECK(targets.size() >= 1001 - 2 * 10);
}

TEST_CASE("large files are mapped and fingerprinted by blocks", "[shard]") {
  const TemporaryFolder folder;
  const auto path = folder / "a.bin";
  data::write_shard(path, counting(100000), 100000);
  const Corpus corpus = Corpus::read(path, 0);
  CHECK(all_of(corpus.training()) == counting(100000));
  std::string bytes = content(path);
  bytes[150000] = static_cast<char>(bytes[150000] ^ 1);
  write_file(folder / "b.bin", bytes);
  CHECK(Corpus::read(folder / "b.bin", 0).hash() != corpus.hash());
  // Sparse files.
  write_file(folder / "large", "");
  fs::resize_file(folder / "large", std::uintmax_t{8} << 20);
  const auto fingerprint = [&](std::uint64_t whole) {
    return data::MappedFile(folder / "large").fingerprint(0, whole);
  };
  const std::uint64_t shorter = fingerprint(0);
  fs::resize_file(folder / "large", (std::uintmax_t{8} << 20) + 1);
  CHECK(fingerprint(0) != shorter);
  // The first block is at the beginning and the last one at the end. Between blocks only the whole file shows
  // a change.
  for (const std::streamoff at : {1000, (8 << 20) - 1000, 100'000}) {
    const std::uint64_t blocks = fingerprint(0), all = fingerprint(data::max_checked_bytes);
    std::fstream(folder / "large", std::ios::in | std::ios::out | std::ios::binary).seekp(at) << 'x';
    CHECK((fingerprint(0) != blocks) == (at != 100'000));
    CHECK(fingerprint(data::max_checked_bytes) != all);
  }
}

TEST_CASE("each byte of a corpus of up to a gibibyte is compared, and not of a larger one", "[shard]") {
  const TemporaryFolder folder;
  const auto text = folder / "text", large = folder / "text2";
  const auto differs = [&] {
    const std::uint64_t before = Corpus::read(folder.path(), 0).hash();
    std::fstream(text, std::ios::in | std::ios::out | std::ios::binary).seekp(100'000) << 'x';
    const std::uint64_t after = Corpus::read(folder.path(), 0).hash();
    std::fstream(text, std::ios::in | std::ios::out | std::ios::binary).seekp(100'000) << '\0';
    return before != after;
  };
  write_file(text, "");
  fs::resize_file(text, std::uintmax_t{8} << 20);
  CHECK(differs());
  write_file(large, "");
  fs::resize_file(large, data::max_checked_bytes);
  CHECK_FALSE(differs());
}
