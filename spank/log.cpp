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

#define MUSTER_DEFINE_LOG(name, slurm_log)      \
  void name(const char* format, ...) noexcept { \
    va_list arguments;                          \
    va_start(arguments, format);                \
    const Line line(format, arguments);         \
    va_end(arguments);                          \
    slurm_log("%s", line.text);                 \
  }
MUSTER_DEFINE_LOG(log_to_user, slurm_spank_log)
MUSTER_DEFINE_LOG(log_error, slurm_error)
MUSTER_DEFINE_LOG(log_to_node, slurm_info)
MUSTER_DEFINE_LOG(log_detail, slurm_verbose)
#undef MUSTER_DEFINE_LOG

}  // namespace muster::spank
