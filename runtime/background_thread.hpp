// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>

namespace muster {

/// Runs `work` and then `on_done`, which must not throw, on a thread of its own. A thread that has done its
/// work stays for a second and runs the next: a join makes about ten such calls. It can be given the next
/// work as soon as on_done() is called. Thread-safe, also after fork().
void run_in_background(std::function<void()> work, std::function<void()> on_done);

}  // namespace muster
