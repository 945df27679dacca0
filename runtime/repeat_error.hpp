// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <string>
#include <thread>

#include "muster/error.hpp"

namespace muster {

/// Throws what another rank says, as an Error that is reported_elsewhere(), a moment later than that one:
/// some launchers end a job with its first process, and the line would be lost.
[[noreturn]] inline void repeat_error(ErrorCode code, const std::string& text) {
  std::this_thread::sleep_for(std::chrono::milliseconds{500});
  throw Error(code, text, true);
}

}  // namespace muster
