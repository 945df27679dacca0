// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "c/call.hpp"

using muster::Error;
using muster::ErrorCode;
using muster::c::call;
using muster::c::required;

namespace {

// Throws what the section says has failed.
void run_section(const char* name, muster_section section, void* context) {
  auto const kept = muster::c::errors_kept();
  int const status = muster::c::call_back(section, context);
  if (status == MUSTER_OK) return;
  if (muster::c::errors_kept() != kept) {
    auto const error = muster::c::last_kept();
    if (error.exit_code() == status) throw error;
  }
  throw Error(ErrorCode::system, fmt::format("{}: the section returned {}", name, status));
}

}  // namespace

int muster_on_rank_0(muster_job* job, const char* name, muster_section section, void* context,
                     int64_t deadline_ms) {
  return call([&] {
    auto& its = required(job, "muster_on_rank_0", "job").job;
    (void)required(name, "muster_on_rank_0", "name");
    (void)required(section, "muster_on_rank_0", "section");
    its.on_rank_0(
        name, [&] { run_section(name, section, context); }, std::chrono::milliseconds(deadline_ms));
  });
}
