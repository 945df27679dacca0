// SPDX-License-Identifier: Apache-2.0
// The administrator's profiles: which variables the jobs of which nodes get. Format: docs/man/muster.conf.5.
#pragma once

#include <array>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "placement/environment/environment.hpp"

namespace muster::placement {

/// What a profile may be matched by.
enum class MatchKey { cluster, partition, feature, instance, vendor, chassis };
constexpr std::array<std::string_view, 6> match_keys = {"cluster",  "partition", "feature",
                                                        "instance", "vendor",    "chassis"};

struct Condition {
  MatchKey key = MatchKey::cluster;
  std::vector<std::string> patterns;  ///< globs as of fnmatch(3); one that fits is enough
};

struct Profile {
  std::string file;
  std::vector<Condition> conditions;  ///< all must hold; none: the profile is for every node
  std::vector<Setting> settings;
};

/// Reads one profile, TOML. file: its name, for messages. Throws Error with one line for what is not TOML or
/// not known.
Profile parse_profile(const std::string& text, const std::string& file);

/// What this node and job are under a key: no, one or several words.
using Identity = std::function<std::vector<std::string>(MatchKey)>;

/// Asks `identity` only for the keys that the profile names, and stops at the first that does not fit.
bool matches(const Profile& profile, const Identity& identity);

/// The settings of profiles that apply, in this order: a later one replaces an earlier one of the same name.
std::vector<Setting> merge(const std::vector<Profile>& profiles);

}  // namespace muster::placement
