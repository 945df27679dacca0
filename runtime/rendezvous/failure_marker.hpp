// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace muster::bootstrap {

/// Notes on this host, for an hour, that the failure of a job's meeting is told, for those of its ranks that
/// come too late to hear of it: as a key of the user's in the kernel (keyrings(7)), which ends by itself.
/// Nothing is noted where this process may have no such keys. Thread-safe.
void mark_failure_reported(const std::string& job) noexcept;

/// True once when it was noted after this process began; a process that began later belongs to another
/// attempt, and so does what this one does after a failure of its own. Thread-safe.
bool failure_was_reported(const std::string& job) noexcept;

}  // namespace muster::bootstrap
