// SPDX-License-Identifier: Apache-2.0
#include "generation/text_output.hpp"

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "muster/error.hpp"
#include "text/printable.hpp"

namespace muster {
namespace {

constexpr std::size_t longest_character = 4;

}  // namespace

void TextOutput::put(const std::string& text) {
  if (text.empty()) return;
  last_ = text.back();
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() || std::fflush(stdout) != 0)
    throw Error(ErrorCode::system, std::string("cannot write to standard output: ") + std::strerror(errno));
}

std::string TextOutput::take_printable(bool all) {
  std::string out;
  std::size_t at = 0;
  while (at < pending_.size()) {
    const char c = pending_[at];
    const std::size_t left = pending_.size() - at,
                      size = c == '\n' || c == '\t' ? 1 : printable_bytes(pending_.data() + at, left);
    // The rest of a character may follow.
    if (size == 0 && !all && left < longest_character && static_cast<unsigned char>(c) >= 0xc2) break;
    out += size > 0 ? pending_.substr(at, size) : "?";
    at += size > 0 ? size : 1;
  }
  pending_.erase(0, at);
  return out;
}

void TextOutput::write(std::string_view bytes) {
  if (!on_terminal_) return put(std::string(bytes));
  pending_ += bytes;
  put(take_printable(false));
}

void TextOutput::finish() {
  put(take_printable(true));
  if (on_terminal_ && last_ != '\n') put("\n");
}

}  // namespace muster
