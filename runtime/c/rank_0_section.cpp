// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "c/call.hpp"

using muster::Error;
using muster::ErrorCode;
using muster::c::call;
using muster::c::require_not_null;

namespace {

// Throws the error that the section reports.
void run_section(const char* name, muster_section section, void* context) {
  auto const errors_before = muster::c::error_count();
  int const status = muster::c::call_back(section, context);
  if (status == MUSTER_OK) return;
  if (muster::c::error_count() != errors_before) {
    auto const error = muster::c::last_recorded_error();
    if (error.exit_code() == status) throw error;
  }
  throw Error(ErrorCode::system, fmt::format("{}: the section returned {}", name, status));
}

}  // namespace

int muster_on_rank_0(muster_job* job, const char* name, muster_section section, void* context,
                     int64_t deadline_ms) {
  return call([&] {
    auto& its = require_not_null(job, "muster_on_rank_0", "job").job;
    (void)require_not_null(name, "muster_on_rank_0", "name");
    (void)require_not_null(section, "muster_on_rank_0", "section");
    its.on_rank_0(
        name, [&] { run_section(name, section, context); }, std::chrono::milliseconds(deadline_ms));
  });
}
