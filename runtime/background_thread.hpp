// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>

namespace muster {

/// Runs `work`, which must not throw, on a thread of its own. A thread whose work is done stays for a second
/// and runs the next work: a join makes about ten such calls. Thread-safe, also after fork().
void run_in_background(std::function<void()> work);

}  // namespace muster
