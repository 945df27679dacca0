// SPDX-License-Identifier: Apache-2.0
// The profiles of this node: which files are valid, and the facts about node and job that they match.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "placement/environment/profile.hpp"

namespace muster::spank {

/// The folder of profiles, unless plugstack.conf has profiles=FOLDER.
constexpr const char* default_profiles = "/etc/muster/muster.d";

struct Profiles {
  std::vector<placement::Setting> settings;  ///< of the matching profiles; later files replace earlier ones
  std::vector<std::string> warnings;         ///< one line for each file that was left out
};

/// The names that Slurm has for the job and the node.
struct JobIdentity {
  std::string cluster;
  std::string partition;
  std::string node;
};

/// Reads the files NAME.conf of a folder in the order of their names. A file is left out with a warning if it
/// is no profile, or if others than root can write it (owner 0, no write permission for group and others; the
/// folder likewise). A missing folder has no profiles. root: of /sys, for tests; owner: for tests as well.
Profiles load_profiles(const std::string& folder, const JobIdentity& job, const std::string& root = "/",
                       unsigned owner = 0);

}  // namespace muster::spank
