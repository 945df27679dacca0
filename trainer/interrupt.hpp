// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace muster {

/// From here on the first SIGINT or SIGTERM only sets a flag; a second one ends the process at once.
void watch_for_interrupts();
/// The signal that came, or 0.
int interrupt_received() noexcept;

}  // namespace muster
