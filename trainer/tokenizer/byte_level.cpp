// SPDX-License-Identifier: Apache-2.0
#include "tokenizer/byte_level.hpp"

#include <array>
#include <cstdint>
#include <nlohmann/json.hpp>

namespace muster::tokenizer {
namespace {

bool stands_for_itself(int byte) {
  return (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
}

constexpr int first_other = 0x100, most_characters = 0x200;

struct Alphabet {
  std::array<std::uint16_t, 256> character{};
  std::array<std::int16_t, most_characters> byte{};  ///< -1: no byte

  Alphabet() {
    byte.fill(-1);
    int other = first_other;
    for (int value = 0; value < 256; ++value) {
      const int code = stands_for_itself(value) ? value : other++;
      character[static_cast<std::size_t>(value)] = static_cast<std::uint16_t>(code);
      byte[static_cast<std::size_t>(code)] = static_cast<std::int16_t>(value);
    }
  }
};

const Alphabet& alphabet() {
  static const Alphabet made;
  return made;
}

}  // namespace

std::string byte_character(unsigned char byte) {
  const unsigned code = alphabet().character[byte];
  if (code < 0x80) return std::string(1, static_cast<char>(code));
  return {static_cast<char>(0xc0 | code >> 6), static_cast<char>(0x80 | (code & 0x3f))};
}

std::optional<std::string> bytes_of_characters(std::string_view text) {
  std::string bytes;
  for (std::size_t i = 0; i < text.size(); ++i) {
    unsigned code = static_cast<unsigned char>(text[i]);
    if (code >= 0x80) {  // all other characters of the alphabet have two bytes in UTF-8
      if (code < 0xc2 || code > 0xc7 || i + 1 == text.size()) return std::nullopt;
      const unsigned next = static_cast<unsigned char>(text[++i]);
      if ((next & 0xc0) != 0x80) return std::nullopt;
      code = (code & 0x1f) << 6 | (next & 0x3f);
    }
    const int byte = alphabet().byte[code];
    if (byte < 0) return std::nullopt;
    bytes += static_cast<char>(byte);
  }
  return bytes;
}

const std::string& byte_tokenizer_file() {
  static const std::string text = [] {
    nlohmann::ordered_json vocabulary = nlohmann::ordered_json::object();
    for (int byte = 0; byte < 256; ++byte)
      vocabulary[byte_character(static_cast<unsigned char>(byte))] = byte;
    const nlohmann::ordered_json byte_level{
        {"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", false}};
    const nlohmann::ordered_json file{{"version", "1.0"},
                                      {"truncation", nullptr},
                                      {"padding", nullptr},
                                      {"added_tokens", nlohmann::ordered_json::array()},
                                      {"normalizer", nullptr},
                                      {"pre_tokenizer", byte_level},
                                      {"post_processor", nullptr},
                                      {"decoder", byte_level},
                                      {"model",
                                       {{"type", "BPE"},
                                        {"dropout", nullptr},
                                        {"unk_token", nullptr},
                                        {"continuing_subword_prefix", nullptr},
                                        {"end_of_word_suffix", nullptr},
                                        {"fuse_unk", false},
                                        {"byte_fallback", false},
                                        {"ignore_merges", false},
                                        {"vocab", vocabulary},
                                        {"merges", nlohmann::ordered_json::array()}}}};
    return file.dump(1) + '\n';
  }();
  return text;
}

}  // namespace muster::tokenizer
