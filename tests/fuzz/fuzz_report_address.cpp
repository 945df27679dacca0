// SPDX-License-Identifier: Apache-2.0
// The address to which a node sends its report, from the step's environment.
#include <cstdint>
#include <cstdlib>

#include "report/report_address.hpp"

using muster::spank::ReportAddress;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  auto const address = ReportAddress::parse({reinterpret_cast<const char*>(data), size});
  if (!address) return 0;
  if (address->port < 1 || address->port > 65535 || address->hosts.empty() || address->hosts.size() > 8)
    std::abort();
  auto const reparsed = ReportAddress::parse(address->to_string());
  if (!reparsed || reparsed->token != address->token || reparsed->hosts != address->hosts) std::abort();
  return 0;
}
