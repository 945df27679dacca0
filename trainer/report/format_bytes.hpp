// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

namespace muster {

/// "1.5 GiB", "640 MiB".
std::string format_bytes(std::uint64_t bytes);

}  // namespace muster
