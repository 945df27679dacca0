// SPDX-License-Identifier: Apache-2.0
// An administrator's profile.
#include "placement/environment/profile.hpp"
#include "placement/topology/error.hpp"

using namespace muster::placement;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    auto const profile = parse_profile(std::string(reinterpret_cast<const char*>(data), size), "x.conf");
    matches(profile, [](MatchKey) { return std::vector<std::string>{"abc"}; });
    merge({profile, profile});
  } catch (const Error&) {
  }
  return 0;
}
