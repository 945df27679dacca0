// SPDX-License-Identifier: Apache-2.0
#include "tokenizer/tokenizer_file.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <stdexcept>
#include <unordered_map>

#include "files/parse_json.hpp"
#include "text/printable.hpp"
#include "tokenizer/byte_level.hpp"
#include "tokenizer/split_pattern.hpp"

namespace muster::tokenizer {
namespace {

using Json = nlohmann::json;
/// Ids by the text of the file.
using Vocabulary = std::unordered_map<std::string, TokenId>;

constexpr TokenId most_tokens = 1 << 22;

[[noreturn]] void refuse(const std::string& why) { throw std::runtime_error(why); }

/// A value of the file, shortened, for a message.
std::string quote(const Json& value) {
  return printable(value.dump(-1, ' ', true, Json::error_handler_t::replace).substr(0, 60));
}

const Json& field(const Json& object, const char* key) {
  static const Json absent;
  const auto found = object.find(key);
  return found == object.end() ? absent : *found;
}

void require_null(const Json& object, const char* key, const char* of) {
  if (const Json& value = field(object, key); !value.is_null())
    refuse(fmt::format("its {} has a {}, {}, which is not known here", of, key, quote(value)));
}

bool get_switch(const Json& object, const char* key, bool otherwise) {
  const Json& value = field(object, key);
  if (!value.is_null() && !value.is_boolean()) refuse(fmt::format("its {} is {}", key, quote(value)));
  return value.is_null() ? otherwise : value.get<bool>();
}

TokenId get_id(const Json& value) {
  if (!value.is_number_unsigned() || value.get<std::uint64_t>() >= most_tokens)
    refuse(fmt::format("{} is no token's number", quote(value)));
  return value.get<TokenId>();
}

Vocabulary read_vocabulary(const Json& model, TokenizerFile& file) {
  const Json& vocab = field(model, "vocab");
  if (!vocab.is_object() || vocab.empty()) refuse("its model has no vocab");
  Vocabulary ids;
  std::set<TokenId> seen;
  for (const auto& [text, value] : vocab.items()) {
    const TokenId id = get_id(value);
    if (!seen.insert(id).second) refuse(fmt::format("two tokens of its vocab have number {}", id));
    ids[text] = id;
    // Others can only be found as added tokens.
    if (auto bytes = bytes_of_characters(text)) file.vocabulary.emplace_back(id, std::move(*bytes));
  }
  return ids;
}

std::pair<std::string, std::string> read_merge(const Json& merge) {
  if (merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string())
    return {merge[0].get<std::string>(), merge[1].get<std::string>()};
  if (merge.is_string()) {
    const auto text = merge.get<std::string>();
    const std::size_t space = text.find(' ');
    if (space != text.npos && text.find(' ', space + 1) == text.npos)
      return {text.substr(0, space), text.substr(space + 1)};
  }
  refuse(fmt::format("{} is no merge of two tokens", quote(merge)));
}

void read_merges(const Json& model, const Vocabulary& ids, TokenizerFile& file) {
  const Json& merges = field(model, "merges");
  if (!merges.is_array()) refuse("its model has no merges");
  for (const Json& merge : merges) {
    if (merge.is_string() && merge.get_ref<const std::string&>().starts_with("#version")) continue;
    const auto [left, right] = read_merge(merge);
    const auto a = ids.find(left), b = ids.find(right), both = ids.find(left + right);
    if (a == ids.end() || b == ids.end() || both == ids.end())
      refuse(fmt::format("its merge {} has tokens that are not in its vocab", quote(merge)));
    file.merges.push_back({a->second, b->second, both->second});
  }
}

Vocabulary read_model(const Json& model, TokenizerFile& file) {
  if (!model.is_object()) refuse("it has no model");
  if (const Json& type = field(model, "type"); !type.is_null() && type != "BPE")
    refuse(fmt::format("its model is of type {}, and only byte-level BPE is known", quote(type)));
  require_null(model, "dropout", "model");
  for (const char* key : {"continuing_subword_prefix", "end_of_word_suffix"}) {
    const Json& affix = field(model, key);
    const bool is_empty = affix.is_string() && affix.get_ref<const std::string&>().empty();
    if (!is_empty) require_null(model, key, "model");
  }
  if (get_switch(model, "byte_fallback", false))
    refuse("its model has byte_fallback, as SentencePiece's do; only byte-level BPE is known");
  file.ignore_merges = get_switch(model, "ignore_merges", false);
  Vocabulary ids = read_vocabulary(model, file);
  read_merges(model, ids, file);
  return ids;
}

/// A pre-tokenizer of type Split.
void read_split(const Json& split, TokenizerFile& file) {
  const Json& regex =
      field(split, "pattern").is_object() ? field(split["pattern"], "Regex") : field(split, "");
  if (!regex.is_string() || field(split, "behavior") != "Isolated" || get_switch(split, "invert", false))
    refuse("its pre-tokenizer splits in another way than by Isolated matches of a Regex");
  if (file.splits) refuse("its pre-tokenizer splits more than once");
  file.splits = true;
  file.expression = regex.get<std::string>();
}

void read_byte_level(const Json& byte_level, bool first, TokenizerFile& file) {
  file.add_prefix_space = get_switch(byte_level, "add_prefix_space", true);
  if (file.add_prefix_space && !first) refuse("its pre-tokenizer adds a space to each piece of a text");
  if (!get_switch(byte_level, "use_regex", true)) return;
  if (file.splits) refuse("its pre-tokenizer splits more than once");
  file.splits = true;
  file.expression = SplitPattern::gpt2;
}

void read_pre_tokenizer(const Json& pre_tokenizer, TokenizerFile& file) {
  if (!pre_tokenizer.is_object()) refuse("it has no pre-tokenizer, and byte-level BPE has ByteLevel");
  const bool is_sequence = field(pre_tokenizer, "type") == "Sequence";
  const Json steps = is_sequence ? field(pre_tokenizer, "pretokenizers") : Json::array({pre_tokenizer});
  if (!steps.is_array()) refuse("its pre-tokenizer is no sequence");
  bool has_byte_level = false;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const Json& type = steps[i].is_object() ? field(steps[i], "type") : steps[i];
    if (has_byte_level) refuse("its pre-tokenizer goes on after ByteLevel");
    if (type == "ByteLevel") {
      has_byte_level = true;
      read_byte_level(steps[i], i == 0, file);
    } else if (type == "Split") {
      read_split(steps[i], file);
    } else {
      refuse(fmt::format("its pre-tokenizer is of type {}, and only Split and ByteLevel are known",
                         quote(type)));
    }
  }
  if (!has_byte_level) refuse("its pre-tokenizer is not ByteLevel, and only byte-level BPE is known");
}

AddedToken read_added_token(const Json& json) {
  const Json& content = json.is_object() ? field(json, "content") : json;
  if (!json.is_object() || !content.is_string() || content.get_ref<const std::string&>().empty())
    refuse(fmt::format("its added token {} has no content", quote(json)));
  AddedToken token{content.get<std::string>(), get_id(field(json, "id")),
                   get_switch(json, "normalized", true), get_switch(json, "special", false)};
  for (const char* key : {"single_word", "lstrip", "rstrip"}) {
    if (get_switch(json, key, false))
      refuse(fmt::format("its added token {} has {}, which is not known here", quote(content), key));
  }
  return token;
}

/// Hugging Face's tokenizers number an added token that is not in the vocabulary by themselves; the number in
/// the file must be the same.
void read_added_tokens(const Json& json, const Vocabulary& ids, TokenizerFile& file) {
  if (json.is_null()) return;
  if (!json.is_array()) refuse("its added_tokens are no list");
  std::set<std::string> contents;
  std::set<TokenId> given;
  for (const Json& entry : json) {
    AddedToken token = read_added_token(entry);
    const auto known = ids.find(token.content);
    const auto size = static_cast<TokenId>(ids.size());
    const TokenId next = given.empty() || *given.rbegin() < size ? size : *given.rbegin() + 1;
    const TokenId expected = known != ids.end() ? known->second : next;
    if (token.id != expected || !contents.insert(token.content).second)
      refuse(fmt::format("its added token {} has number {}, and {} would be next", quote(entry["content"]),
                         token.id, expected));
    given.insert(token.id);
    file.added.push_back(std::move(token));
  }
}

}  // namespace

TokenizerFile parse_tokenizer_file(std::string_view text) {
  const auto json = parse_json<Json>(text);
  if (!json.is_object()) refuse("it is not a JSON object");
  for (const char* key : {"truncation", "padding", "normalizer"}) require_null(json, key, "file");
  TokenizerFile file;
  read_pre_tokenizer(field(json, "pre_tokenizer"), file);
  const Vocabulary ids = read_model(field(json, "model"), file);
  read_added_tokens(field(json, "added_tokens"), ids, file);
  return file;
}

}  // namespace muster::tokenizer
