// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace muster::detail {

/// Whether this processor and the system have AVX2 and F16C. Asks the processor once, at the first call:
/// the instruction takes microseconds in a virtual machine, and the compiler's own check would execute it
/// twenty times whenever the library is loaded. Thread-safe.
bool has_avx2_and_f16c() noexcept;

}  // namespace muster::detail
