// SPDX-License-Identifier: Apache-2.0
// The alphabet of byte-level BPE: one printable character for each byte (bytes_to_unicode() in encoder.py of
// openai/gpt-2).
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace muster::tokenizer {

/// The character of a byte, as UTF-8: bytes 33 to 126, 161 to 172 and 174 to 255 are the characters with
/// these numbers; the others are U+0100, U+0101 and so on, in their order.
std::string byte_character(unsigned char byte);

/// The bytes that a text of such characters stands for; nothing if it has another character.
std::optional<std::string> bytes_of_characters(std::string_view text);

/// The text of a tokenizer.json whose tokens are the bytes of a text, for programs that need one.
const std::string& byte_tokenizer_file();

}  // namespace muster::tokenizer
