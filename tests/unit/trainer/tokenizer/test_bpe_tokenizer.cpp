// SPDX-License-Identifier: Apache-2.0
// Byte-level BPE against the tokens of Hugging Face's tokenizers package.
#include <nlohmann/json.hpp>

#include "catch.hpp"
#include "checkpoint/training_state.hpp"
#include "content.hpp"
#include "muster/error.hpp"
#include "tokenizer/bpe_tokenizer.hpp"
#include "tokenizer/byte_level.hpp"
#include "tokenizer/tokenize_text.hpp"
#include "tokenizer/utf8.hpp"

using namespace muster;
using Catch::Matchers::ContainsSubstring;
using nlohmann::json;
using tokenizer::BpeTokenizer;
using tokenizer::TokenId;

namespace {

std::string fixture(const std::string& name) {
  return content(std::string(MUSTER_TOKENIZER_FIXTURES) + "/" + name);
}
BpeTokenizer tokenizer_of(const std::string& text) {
  return BpeTokenizer(tokenizer::parse_tokenizer_file(text));
}

/// Why a changed tokenizer.json is refused; empty when it is not.
std::string refusal(const json& file) {
  try {
    tokenizer_of(file.dump());
  } catch (const std::runtime_error& error) {
    CHECK(std::string(error.what()).find('\n') == std::string::npos);
    return error.what();
  }
  return "";
}

std::string decode(const BpeTokenizer& tokenizer, const std::vector<TokenId>& tokens) {
  std::string text;
  for (const TokenId token : tokens) text += tokenizer.decode(token);
  return text;
}

}  // namespace

TEST_CASE("tokens are those of Hugging Face's tokenizers, and decode to the text", "[tokenizer]") {
  const json expected = json::parse(fixture("expected.json"));
  for (const char* kind : {"gpt2", "llama3"}) {
    const BpeTokenizer tokenizer = tokenizer_of(fixture(std::string(kind) + ".json"));
    REQUIRE(expected.at(kind).size() > 10);
    for (const json& entry : expected.at(kind)) {
      const auto text = entry.at(0).get<std::string>();
      CAPTURE(kind, text);
      const auto tokens = tokenizer.encode(text);
      CHECK(tokens == entry.at(1).get<std::vector<TokenId>>());
      CHECK(decode(tokenizer, tokens) == text);
    }
    CHECK(tokenizer.encode("").empty());
  }
}

TEST_CASE("merges as texts and as pairs are the same", "[tokenizer]") {
  json file = json::parse(fixture("gpt2.json"));
  json texts = json::array({"#version: 0.2"});
  for (const json& merge : file["model"]["merges"])
    texts.push_back(merge[0].get<std::string>() + " " + merge[1].get<std::string>());
  file["model"]["merges"] = texts;
  const std::string text = "the quick über 1234567";
  CHECK(tokenizer_of(file.dump()).encode(text) == tokenizer_of(fixture("gpt2.json")).encode(text));
}

TEST_CASE("a prefix space is added to each text between added tokens", "[tokenizer]") {
  json file = json::parse(fixture("gpt2.json"));
  const BpeTokenizer plain = tokenizer_of(file.dump());
  file["pre_tokenizer"]["add_prefix_space"] = true;
  const BpeTokenizer prefixed = tokenizer_of(file.dump());
  CHECK(prefixed.encode("hello<|endoftext|>world<|endoftext|> x") ==
        plain.encode(" hello<|endoftext|> world<|endoftext|> x"));
  CHECK_FALSE(prefixed.can_cut_at_lines());
}

TEST_CASE("the end of a text is known by its token", "[tokenizer]") {
  const BpeTokenizer gpt2 = tokenizer_of(fixture("gpt2.json"));
  const auto end = gpt2.find_added("<|endoftext|>");
  REQUIRE(end);
  CHECK(gpt2.ends_text(*end));
  CHECK_FALSE(gpt2.ends_text(*end + 1));
  CHECK_FALSE(gpt2.find_added("<|end|>"));
  CHECK(gpt2.size() == 340);
}

TEST_CASE("a tokenizer.json that would give other tokens is refused", "[tokenizer]") {
  const json good = json::parse(fixture("llama3.json"));
  CHECK(refusal(good).empty());
  const auto changed = [&](const char* path, const json& value) {
    json file = good;
    file[json::json_pointer(path)] = value;
    CAPTURE(path, value);
    const std::string text = refusal(file);
    CHECK_FALSE(text.empty());
    return text;
  };
  CHECK_THAT(changed("/normalizer", {{"type", "NFC"}}), ContainsSubstring("normalizer"));
  CHECK_THAT(changed("/truncation", {{"max_length", 5}}), ContainsSubstring("truncation"));
  CHECK_THAT(changed("/model/type", "Unigram"), ContainsSubstring("only byte-level BPE"));
  CHECK_THAT(changed("/model/byte_fallback", true), ContainsSubstring("byte_fallback"));
  CHECK_THAT(changed("/model/dropout", 0.1), ContainsSubstring("dropout"));
  CHECK_THAT(changed("/model/continuing_subword_prefix", "##"),
             ContainsSubstring("continuing_subword_prefix"));
  CHECK_THAT(changed("/model/end_of_word_suffix", "</w>"), ContainsSubstring("end_of_word_suffix"));
  CHECK_THAT(changed("/model/ignore_merges", "yes"), ContainsSubstring("ignore_merges"));
  CHECK_THAT(changed("/model/vocab", json::array()), ContainsSubstring("no vocab"));
  CHECK_THAT(changed("/model/vocab/a", 5), ContainsSubstring("two tokens of its vocab have number 5"));
  CHECK_THAT(changed("/model/vocab/a", -1), ContainsSubstring("no token's number"));
  CHECK_THAT(changed("/model/vocab/a", 1e9), ContainsSubstring("no token's number"));
  CHECK_THAT(changed("/model/merges", nullptr), ContainsSubstring("no merges"));
  CHECK_THAT(changed("/model/merges/0", "a b c"), ContainsSubstring("no merge of two tokens"));
  CHECK_THAT(changed("/model/merges/0", {"a", "zzz"}), ContainsSubstring("not in its vocab"));
  CHECK_THAT(changed("/pre_tokenizer", nullptr), ContainsSubstring("no pre-tokenizer"));
  CHECK_THAT(changed("/pre_tokenizer", {{"type", "Whitespace"}}), ContainsSubstring("Whitespace"));
  CHECK_THAT(changed("/pre_tokenizer/pretokenizers/0/pattern/Regex", "\\s+"),
             ContainsSubstring("regular expression"));
  CHECK_THAT(changed("/pre_tokenizer/pretokenizers/0/pattern", {{"String", " "}}),
             ContainsSubstring("Isolated"));
  CHECK_THAT(changed("/pre_tokenizer/pretokenizers/0/behavior", "Removed"), ContainsSubstring("Isolated"));
  CHECK_THAT(changed("/pre_tokenizer/pretokenizers/0/invert", true), ContainsSubstring("Isolated"));
  CHECK_THAT(changed("/pre_tokenizer/pretokenizers/1/use_regex", true), ContainsSubstring("more than once"));
  CHECK_THAT(changed("/pre_tokenizer/pretokenizers/1/add_prefix_space", true),
             ContainsSubstring("adds a space"));
  CHECK_THAT(changed("/added_tokens/0/lstrip", true), ContainsSubstring("lstrip"));
  CHECK_THAT(changed("/added_tokens/0/single_word", true), ContainsSubstring("single_word"));
  CHECK_THAT(changed("/added_tokens/0/content", ""), ContainsSubstring("no content"));
  CHECK_THAT(changed("/added_tokens/1/id", 999), ContainsSubstring("would be next"));
  CHECK_THAT(changed("/added_tokens/1/content", "<x>"), ContainsSubstring("would be next"));
  for (const char* text : {"", "[]", "{}", "{\"model\":{}}", "null"})
    CHECK_THROWS_AS(tokenizer::parse_tokenizer_file(text), std::runtime_error);
}

TEST_CASE("text that is not UTF-8, and bytes without a token, are refused", "[tokenizer]") {
  const BpeTokenizer gpt2 = tokenizer_of(fixture("gpt2.json"));
  CHECK_THROWS_AS(gpt2.encode("abc\xff"), Error);
  json file = json::parse(fixture("gpt2.json"));
  file["model"]["vocab"].erase("q");
  json merges = json::array();
  for (const json& merge : file["model"]["merges"]) {
    if (merge[0].get<std::string>().find('q') == std::string::npos &&
        merge[1].get<std::string>().find('q') == std::string::npos)
      merges.push_back(merge);
  }
  file["model"]["merges"] = merges;
  const BpeTokenizer without_q = tokenizer_of(file.dump());
  CHECK(without_q.encode("the") == gpt2.encode("the"));
  CHECK_THROWS_AS(without_q.encode("quick"), Error);
}

TEST_CASE("invalid UTF-8 is found where it is", "[tokenizer]") {
  using tokenizer::find_invalid_utf8;
  const std::string valid =
      "plain ASCII text, \xc3\xa9 \xed\x9f\xbf \xee\x80\x80 \xf0\x90\x80\x80 \xf4\x8f\xbf\xbf";
  CHECK_FALSE(find_invalid_utf8(valid));
  CHECK_FALSE(find_invalid_utf8(std::string("\0", 1)));
  for (const char* bad :
       {"\x80", "\xc0\xaf", "\xc1\xbf", "\xe0\x9f\xbf", "\xed\xa0\x80", "\xf0\x8f\xbf\xbf",
        "\xf4\x90\x80\x80", "\xf5\x80\x80\x80", "\xc3", "\xe2\x82", "\xf0\x9f\x99", "\xc3(", "\xff"}) {
    CAPTURE(bad);
    CHECK(find_invalid_utf8(valid + bad) == valid.size());
  }
}

TEST_CASE("parts of a text have together the tokens of the whole", "[tokenizer]") {
  std::string text;
  const json expected = json::parse(fixture("expected.json"));
  for (int i = 0; i < 40; ++i) {
    for (const json& entry : expected.at("gpt2"))
      text += entry.at(0).get<std::string>() + (i % 3 ? "\n" : ".\n");
    text += "x\ny!\nz1\n2\n";
  }
  for (const char* kind : {"gpt2", "llama3"}) {
    const BpeTokenizer tokenizer = tokenizer_of(fixture(std::string(kind) + ".json"));
    const auto parts = tokenizer::cut_text(tokenizer, text, 10);
    CHECK(parts.size() > 100);
    std::vector<TokenId> tokens;
    std::string joined;
    for (const auto part : parts) {
      joined += part;
      const auto of_part = tokenizer.encode(part);
      tokens.insert(tokens.end(), of_part.begin(), of_part.end());
    }
    CHECK(joined == text);
    CHECK(tokens == tokenizer.encode(text));
  }
}

TEST_CASE("the alphabet of bytes is GPT-2's", "[tokenizer]") {
  CHECK(tokenizer::byte_character('a') == "a");
  CHECK(tokenizer::byte_character(' ') == "Ġ");
  CHECK(tokenizer::byte_character('\n') == "Ċ");
  CHECK(tokenizer::byte_character(0xad) == "Ń");
  CHECK(tokenizer::byte_character(0xff) == "ÿ");
  for (int byte = 0; byte < 256; ++byte) {
    const auto value = static_cast<unsigned char>(byte);
    CHECK(tokenizer::bytes_of_characters(tokenizer::byte_character(value)) ==
          std::string(1, static_cast<char>(value)));
  }
  CHECK_FALSE(tokenizer::bytes_of_characters("a b"));
  CHECK_FALSE(tokenizer::bytes_of_characters("数"));
  CHECK_FALSE(tokenizer::bytes_of_characters("\xc4"));
}

TEST_CASE("the tokenizer of bytes is one for other programs too", "[tokenizer]") {
  const std::string text = "any \xc3\xa9 text\n";
  const auto bytes = tokenizer::make_tokenizer(byte_tokenizer, "x");
  CHECK(tokenizer_of(tokenizer::byte_tokenizer_file()).encode(text) == bytes->encode(text));
  CHECK(bytes->encode("\xff") == std::vector<TokenId>{255});
}
