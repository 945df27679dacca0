// SPDX-License-Identifier: Apache-2.0
#include "hooks/activation_check.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "inherited_option.hpp"

namespace muster::spank {

namespace {

bool starts_with(const char* text, const char* beginning) {
  return std::strncmp(text, beginning, std::strlen(beginning)) == 0;
}

bool is_inactive_argument(const char* argument) {
  for (const char* harmless : {"default=off", "isolation=keep", "isolation=share", "cache=off"})
    if (std::strcmp(argument, harmless) == 0) return true;
  for (const char* absolute : {"topology=/", "profiles=/", "cache=/"})
    if (starts_with(argument, absolute)) return true;
  return false;
}

}  // namespace

bool contains_word(const char* list, const char* word) noexcept {
  const std::size_t length = std::strlen(word);
  while (true) {
    if (std::strncmp(list, word, length) == 0 && (list[length] == ',' || list[length] == '\0')) return true;
    list = std::strchr(list, ',');
    if (list == nullptr) return false;
    ++list;
  }
}

bool is_requested_by_config(int count, const char* const* arguments) noexcept {
  return !std::all_of(arguments, arguments + count, is_inactive_argument);
}

bool default_contains(const char* word, int count, const char* const* arguments) noexcept {
  constexpr const char* key = "default=";
  bool contains = false;
  for (int i = 0; i < count; ++i)
    if (starts_with(arguments[i], key)) contains = contains_word(arguments[i] + std::strlen(key), word);
  return contains;
}

bool may_be_requested_by_srun() noexcept {
  for (const char* variable : inherited_option_variables)
    if (std::getenv(variable) != nullptr) return true;
  // srun accepts abbreviations of its options; other options of srun begin with --mu.
  return file_may_contain("/proc/self/cmdline", "--mus");
}

bool file_may_contain(const char* file, const char* text) noexcept {
  const std::size_t length = std::strlen(text);
  const int descriptor = open(file, O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) return true;
  char bytes[4096];
  std::size_t kept = 0;  // bytes from the end of the previous read, where the text may begin
  bool found = false;
  while (!found) {
    const ssize_t got = read(descriptor, bytes + kept, sizeof bytes - kept);
    if (got <= 0) {
      found = got < 0;
      break;
    }
    const std::size_t size = kept + static_cast<std::size_t>(got);
    found = memmem(bytes, size, text, length) != nullptr;
    kept = std::min(size, length - 1);
    std::memmove(bytes, bytes + size - kept, kept);
  }
  close(descriptor);
  return found;
}

}  // namespace muster::spank
