// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <string>
#include <thread>

#include "muster/error.hpp"

namespace muster {

/// How long a rank whose error another rank prints waits before it throws.
inline constexpr std::chrono::milliseconds remote_error_delay{500};

/// Throws an error that another rank prints, as an Error that is reported_elsewhere(). It waits a moment
/// first: some launchers end a job with its first process, and the other rank's line would be lost.
[[noreturn]] inline void rethrow_remote_error(ErrorCode code, const std::string& text) {
  std::this_thread::sleep_for(remote_error_delay);
  throw Error(code, text, true);
}

}  // namespace muster
