// SPDX-License-Identifier: Apache-2.0
// The administrator's profiles: environment variables for jobs on selected nodes. Format:
// docs/man/muster.conf.5.
#pragma once

#include <array>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "placement/environment/environment.hpp"

namespace muster::placement {

/// The keys of a profile's [match] table.
enum class MatchKey { cluster, partition, feature, instance, vendor, chassis };
constexpr std::array<std::string_view, 6> match_keys = {"cluster",  "partition", "feature",
                                                        "instance", "vendor",    "chassis"};

struct Condition {
  MatchKey key = MatchKey::cluster;
  std::vector<std::string> patterns;  ///< globs of fnmatch(3); one must match
};

struct Profile {
  std::string file;
  std::vector<Condition> conditions;  ///< all must hold; without any, the profile applies to every node
  std::vector<Setting> settings;
};

/// Parses one profile, a TOML document. file: its name, for messages. Throws Error with one line for invalid
/// TOML and for unknown keys.
Profile parse_profile(const std::string& text, const std::string& file);

/// Returns the values of this node and job for a key: none, one or several.
using GetMatchValues = std::function<std::vector<std::string>(MatchKey)>;

/// Calls `get_values` only for the profile's own keys, and stops at the first that does not match.
bool matches(const Profile& profile, const GetMatchValues& get_values);

/// Merges the settings of profiles in this order: a later setting replaces an earlier one of the same name.
std::vector<Setting> merge(const std::vector<Profile>& profiles);

}  // namespace muster::placement
