// SPDX-License-Identifier: Apache-2.0
#include "report/format_bytes.hpp"

#include <fmt/format.h>

namespace muster {

std::string format_bytes(std::uint64_t bytes) {
  const double mib = static_cast<double>(bytes) / (1 << 20);
  if (mib >= 1024) return fmt::format("{:.1f} GiB", mib / 1024);
  return fmt::format("{:.{}f} MiB", mib, mib < 10 ? 1 : 0);
}

}  // namespace muster
