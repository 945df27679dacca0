// SPDX-License-Identifier: Apache-2.0
#include "c/call.hpp"
#include "muster/version.hpp"

namespace muster::c {
namespace {

struct LastError {
  std::string text;
  int fault = -1;
  bool repeated = false;
};

thread_local LastError last_error;

}  // namespace

static_assert(static_cast<int>(Fault::usage) == MUSTER_FAULT_USAGE &&
              static_cast<int>(Fault::environment) == MUSTER_FAULT_ENVIRONMENT &&
              static_cast<int>(Fault::device) == MUSTER_FAULT_DEVICE &&
              static_cast<int>(Fault::deadline) == MUSTER_FAULT_DEADLINE &&
              static_cast<int>(Fault::lost_rank) == MUSTER_FAULT_LOST_RANK &&
              static_cast<int>(Fault::system) == MUSTER_FAULT_SYSTEM);

int keep_error(const Error& error) noexcept {
  last_error.fault = static_cast<int>(error.fault());
  last_error.repeated = error.repeated();
  try {
    last_error.text = error.what();
  } catch (const std::bad_alloc&) {
    last_error.text.clear();
  }
  return error.exit_code();
}

}  // namespace muster::c

using muster::c::last_error;

int muster_abi_version(void) { return MUSTER_ABI_VERSION; }
const char* muster_version(void) { return muster::version; }
const char* muster_last_error(void) { return last_error.text.c_str(); }
int muster_last_fault(void) { return last_error.fault; }
int muster_last_error_repeated(void) { return last_error.repeated ? 1 : 0; }
