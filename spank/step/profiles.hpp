// SPDX-License-Identifier: Apache-2.0
// The profiles of this node: which files count, and what the node and the job are that they are matched by.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "placement/environment/profile.hpp"

namespace muster::spank {

/// Where profiles lie unless plugstack.conf says profiles=FOLDER.
constexpr const char* default_profiles = "/etc/muster/muster.d";

struct Profiles {
  std::vector<placement::Setting> settings;  ///< of the profiles that fit, later files replacing earlier ones
  std::vector<std::string> complaints;       ///< one line for each file that was left out
};

/// What Slurm says of the job and the node: cluster, partition, node name.
struct JobIdentity {
  std::string cluster;
  std::string partition;
  std::string node;
};

/// Reads the files NAME.conf of a folder in the order of their names. Left out with a complaint: what is no
/// profile, and what is not root's alone to write (owner 0, no write permission for group and others; the
/// folder likewise). A folder that is not there has none. root: of /sys, for tests; owner: for tests as well.
Profiles load_profiles(const std::string& folder, const JobIdentity& job, const std::string& root = "/",
                       unsigned owner = 0);

}  // namespace muster::spank
