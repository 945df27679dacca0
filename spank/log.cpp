// SPDX-License-Identifier: Apache-2.0
#include "log.hpp"

#include <cstdarg>
#include <cstdio>
#include <cstring>

#include "text/printable.hpp"

extern "C" {
#include <slurm/spank.h>
}

namespace muster::spank {

namespace {

struct Line {
  char text[4000];

  Line(const char* format, va_list arguments) noexcept {
    if (std::vsnprintf(text, sizeof text, format, arguments) < 0) text[0] = '\0';
    make_printable(text, std::strlen(text));
  }
};

}  // namespace

void log_to_user(const char* format, ...) noexcept {
  va_list arguments;
  va_start(arguments, format);
  const Line line(format, arguments);
  va_end(arguments);
  slurm_spank_log("%s", line.text);
}

void log_error(const char* format, ...) noexcept {
  va_list arguments;
  va_start(arguments, format);
  const Line line(format, arguments);
  va_end(arguments);
  slurm_error("%s", line.text);
}

void log_to_node(const char* format, ...) noexcept {
  va_list arguments;
  va_start(arguments, format);
  const Line line(format, arguments);
  va_end(arguments);
  slurm_info("%s", line.text);
}

void log_detail(const char* format, ...) noexcept {
  va_list arguments;
  va_start(arguments, format);
  const Line line(format, arguments);
  va_end(arguments);
  slurm_verbose("%s", line.text);
}

}  // namespace muster::spank
