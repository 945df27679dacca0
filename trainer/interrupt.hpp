// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace muster {

/// From here on the first SIGINT, SIGTERM, SIGUSR2 or, where nothing else in the process uses it, SIGUSR1
/// only sets a flag; a second one of any of them ends the process at once.
void watch_for_interrupts();
/// The signal that came, or 0.
int interrupt_received() noexcept;
/// True when a batch system sent it, so that the run is to go on later; false for a person's Ctrl-C.
bool is_preemption(int signal) noexcept;

}  // namespace muster
