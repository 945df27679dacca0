// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "c/call.hpp"
#include "muster/version.hpp"
#include "text/printable.hpp"

namespace muster::c {
namespace {

struct LastError {
  std::string text;
  int fault = -1;
  bool repeated = false;
  std::uint64_t number = 0;  // of this thread, from 1 on
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
  ++last_error.number;
  last_error.fault = static_cast<int>(error.fault());
  last_error.repeated = error.repeated();
  try {
    last_error.text = printable(error.what());  // it may hold what another rank or a file says
  } catch (const std::bad_alloc&) {
    last_error.text.clear();
  }
  return error.exit_code();
}

std::uint64_t errors_kept() noexcept { return last_error.number; }

Error last_kept() { return {static_cast<Fault>(last_error.fault), last_error.text}; }

}  // namespace muster::c

using muster::c::last_error;

int muster_abi_version(void) { return MUSTER_ABI_VERSION; }
const char* muster_version(void) { return muster::version; }
const char* muster_last_error(void) { return last_error.text.c_str(); }
int muster_last_fault(void) { return last_error.fault; }
int muster_last_error_repeated(void) { return last_error.repeated ? 1 : 0; }

int muster_set_error(int fault, const char* text) {
  using muster::Error;
  using muster::Fault;
  return muster::c::call([&] {
    if (fault < MUSTER_FAULT_USAGE || fault > MUSTER_FAULT_SYSTEM)
      throw Error(Fault::usage,
                  "muster_set_error: fault " + std::to_string(fault) + " is none of the faults of muster.h");
    std::string line = &muster::c::required(text, "muster_set_error", "text");
    std::replace(line.begin(), line.end(), '\n', ' ');
    throw Error(static_cast<Fault>(fault), line);
  });
}
