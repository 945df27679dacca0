// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "c/call.hpp"
#include "muster/version.hpp"
#include "text/printable.hpp"

namespace muster::c {
namespace {

struct LastError {
  std::string text;
  int code = -1;
  bool repeated = false;
  std::uint64_t number = 0;  // counts this thread's errors from 1
};

thread_local LastError last_error;

}  // namespace

static_assert(static_cast<int>(ErrorCode::usage) == MUSTER_ERROR_USAGE &&
              static_cast<int>(ErrorCode::environment) == MUSTER_ERROR_ENVIRONMENT &&
              static_cast<int>(ErrorCode::device) == MUSTER_ERROR_DEVICE &&
              static_cast<int>(ErrorCode::deadline) == MUSTER_ERROR_DEADLINE &&
              static_cast<int>(ErrorCode::lost_rank) == MUSTER_ERROR_LOST_RANK &&
              static_cast<int>(ErrorCode::system) == MUSTER_ERROR_SYSTEM);

int record_error(const Error& error) noexcept {
  ++last_error.number;
  last_error.code = static_cast<int>(error.code());
  last_error.repeated = error.reported_elsewhere();
  try {
    last_error.text = printable(error.what());  // it may contain text of another rank or a file
  } catch (const std::bad_alloc&) {
    last_error.text.clear();
  }
  return error.exit_code();
}

std::uint64_t error_count() noexcept { return last_error.number; }

Error last_recorded_error() { return {static_cast<ErrorCode>(last_error.code), last_error.text}; }

}  // namespace muster::c

using muster::c::last_error;

int muster_abi_version(void) { return MUSTER_ABI_VERSION; }
const char* muster_version(void) { return muster::version; }
const char* muster_last_error(void) { return last_error.text.c_str(); }
int muster_last_error_code(void) { return last_error.code; }
int muster_last_error_reported_elsewhere(void) { return last_error.repeated ? 1 : 0; }

int muster_set_error(int code, const char* text) {
  using muster::Error;
  using muster::ErrorCode;
  return muster::c::call([&] {
    if (code < MUSTER_ERROR_USAGE || code > MUSTER_ERROR_SYSTEM)
      throw Error(ErrorCode::usage,
                  "muster_set_error: code " + std::to_string(code) + " is not one of MUSTER_ERROR_…");
    std::string line = &muster::c::require_not_null(text, "muster_set_error", "text");
    std::replace(line.begin(), line.end(), '\n', ' ');
    throw Error(static_cast<ErrorCode>(code), line);
  });
}
