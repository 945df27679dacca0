// SPDX-License-Identifier: Apache-2.0
#include "tokenizer/split_pattern.hpp"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <fmt/format.h>
#include <pcre2.h>

#include <algorithm>
#include <iterator>
#include <stdexcept>

namespace muster::tokenizer {
namespace {

/// In the order of their models: GPT-2, as OpenAI and Hugging Face write it; Llama 3; Qwen 2; cl100k.
constexpr const char* known_expressions[] = {
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)",
    R"('(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)",
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)",
    R"('(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+)",
};

/// White space of Oniguruma: the Unicode property White_Space. PCRE2's own \s has U+180E too.
constexpr const char* white_space = R"(\p{Z}\x{09}-\x{0d}\x{85})";

/// Letters and numbers that Unicode 15.0 to 16.0 added, which tokenizers 0.23 knows: PCRE2 10.42 has Unicode
/// 14.0, and each release of it another one.
constexpr const char* new_letters =
    R"(\x{1c89}-\x{1c8a}\x{a7cb}-\x{a7cd}\x{a7da}-\x{a7dc}\x{105c0}-\x{105f3}\x{10d4a}-\x{10d65})"
    R"(\x{10d6f}-\x{10d85}\x{10ec2}-\x{10ec4}\x{1123f}-\x{11240}\x{11380}-\x{11389}\x{1138b}\x{1138e})"
    R"(\x{11390}-\x{113b5}\x{113b7}\x{113d1}\x{113d3}\x{11bc0}-\x{11be0}\x{11f02}\x{11f04}-\x{11f10})"
    R"(\x{11f12}-\x{11f33}\x{1342f}\x{13441}-\x{13446}\x{13460}-\x{143fa}\x{16100}-\x{1611d})"
    R"(\x{16d40}-\x{16d6c}\x{18cff}\x{1b132}\x{1b155}\x{1df25}-\x{1df2a}\x{1e030}-\x{1e06d})"
    R"(\x{1e4d0}-\x{1e4eb}\x{1e5d0}-\x{1e5ed}\x{1e5f0}\x{2b739}\x{2ebf0}-\x{2ee5d}\x{31350}-\x{323af})";
constexpr const char* new_numbers =
    R"(\x{10d40}-\x{10d49}\x{116d0}-\x{116e3}\x{11bf0}-\x{11bf9}\x{11f50}-\x{11f59}\x{16130}-\x{16139})"
    R"(\x{16d70}-\x{16d79}\x{1ccf0}-\x{1ccf9}\x{1d2c0}-\x{1d2d3}\x{1e4f0}-\x{1e4f9}\x{1e5f1}-\x{1e5fa})";

/// Writes \s, \S, \p{L} and \p{N} so that PCRE2 takes the characters of Hugging Face's tokenizers.
std::string translate(std::string_view expression) {
  const std::pair<std::string_view, std::string> classes[] = {
      {"\\s", white_space},
      {"\\p{L}", std::string("\\p{L}") + new_letters},
      {"\\p{N}", std::string("\\p{N}") + new_numbers}};
  std::string out;
  bool in_class = false;
  while (!expression.empty()) {
    std::size_t taken = expression.front() == '\\' ? 2 : 1;
    std::string text(expression.substr(0, taken));
    if (text == "\\S") text = fmt::format("[^{}]", white_space);
    for (const auto& [name, members] : classes) {
      if (!expression.starts_with(name)) continue;
      text = in_class ? members : fmt::format("[{}]", members);
      taken = name.size();
    }
    if (text == "[" || text == "]") in_class = text == "[";
    out += text;
    expression.remove_prefix(taken);
  }
  return out;
}

struct FreeCode {
  void operator()(pcre2_code* code) const { pcre2_code_free(code); }
};
struct FreeMatch {
  void operator()(pcre2_match_data* match) const { pcre2_match_data_free(match); }
};

}  // namespace

const std::string SplitPattern::gpt2 = known_expressions[0];
const std::string SplitPattern::llama3 = known_expressions[2];

struct SplitPattern::Compiled {
  std::unique_ptr<pcre2_code, FreeCode> code;
};

SplitPattern::SplitPattern(const std::string& expression) {
  if (std::find(std::begin(known_expressions), std::end(known_expressions), expression) ==
      std::end(known_expressions)) {
    throw std::runtime_error(
        "it splits text by a regular expression that is none of GPT-2's, Llama 3's, Qwen 2's and cl100k's");
  }
  const std::string translated = translate(expression);
  int error = 0;
  PCRE2_SIZE at = 0;
  auto compiled = std::make_shared<Compiled>();
  compiled->code.reset(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(translated.data()), translated.size(),
                                     PCRE2_UTF | PCRE2_UCP, &error, &at, nullptr));
  if (!compiled->code)
    throw std::runtime_error(fmt::format("PCRE2 refuses its expression (error {})", error));
  pcre2_jit_compile(compiled->code.get(), PCRE2_JIT_COMPLETE);  // without JIT it is slower
  compiled_ = std::move(compiled);
}

void SplitPattern::split(std::string_view text, const std::function<void(std::string_view)>& piece) const {
  const pcre2_code* code = compiled_->code.get();
  const std::unique_ptr<pcre2_match_data, FreeMatch> match(
      pcre2_match_data_create_from_pattern(code, nullptr));
  if (!match) throw std::runtime_error("PCRE2 runs out of memory");
  const auto* subject = reinterpret_cast<PCRE2_SPTR>(text.data());
  const PCRE2_SIZE* const range = pcre2_get_ovector_pointer(match.get());
  std::size_t done = 0;
  while (done < text.size()) {
    const int found = pcre2_match(code, subject, text.size(), done, PCRE2_NO_UTF_CHECK, match.get(), nullptr);
    if (found < 0 && found != PCRE2_ERROR_NOMATCH)
      throw std::runtime_error(fmt::format("PCRE2 cannot split the text (error {})", found));
    const std::size_t begin = found < 0 ? text.size() : range[0], end = found < 0 ? text.size() : range[1];
    if (begin > done) piece(text.substr(done, begin - done));
    if (end > begin) piece(text.substr(begin, end - begin));
    done = end;
  }
}

}  // namespace muster::tokenizer
