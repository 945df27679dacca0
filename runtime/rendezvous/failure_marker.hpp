// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace muster::bootstrap {

/// Records on this host that the job's failed rendezvous has been reported, so that late ranks stay silent.
/// Stored in the user keyring of the kernel (keyrings(7)), where it expires after an hour. Does nothing where
/// this process may not have such keys. Thread-safe.
void mark_failure_reported(const std::string& job) noexcept;

/// True, once, if that record was made after this process started and after its own last failure: an older
/// record belongs to another attempt. Thread-safe.
bool failure_was_reported(const std::string& job) noexcept;

}  // namespace muster::bootstrap
