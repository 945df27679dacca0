// SPDX-License-Identifier: Apache-2.0
#include "step/profiles.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <map>

#include "file/regular_file.hpp"
#include "placement/topology/error.hpp"
#include "placement/topology/live/sysfs.hpp"
#include "slurm/node_features.hpp"

namespace muster::spank {

namespace {

using placement::MatchKey;

std::vector<std::string> to_list(std::string text) {
  if (text.empty()) return {};
  return {std::move(text)};
}

/// Called only for the keys that profiles use, so a profile that matches a partition makes this open no file.
std::vector<std::string> identity(MatchKey key, const JobIdentity& job, const placement::Sysfs& sysfs) {
  const auto dmi = [&](const char* name) {
    return to_list(sysfs.text(std::string("/sys/class/dmi/id/") + name).value_or(""));
  };
  switch (key) {
    case MatchKey::cluster:
      return to_list(job.cluster);
    case MatchKey::partition:
      return to_list(job.partition);
    case MatchKey::feature:
      return node_features(slurm_conf_path(), job.node);
    case MatchKey::instance:
      return dmi("product_name");
    case MatchKey::vendor:
      return dmi("sys_vendor");
    case MatchKey::chassis:
      return dmi("chassis_asset_tag");
  }
  return {};
}

}  // namespace

Profiles load_profiles(const std::string& folder, const JobIdentity& job, const std::string& root,
                       unsigned owner) {
  Profiles found;
  struct stat status {};
  if (stat(folder.c_str(), &status) != 0) return found;
  if (!only_owner_writes(status, owner)) {
    found.warnings.push_back("profiles in " + folder +
                             " are ignored: it must be root's, and not writable by others");
    return found;
  }
  if (access(folder.c_str(), R_OK | X_OK) != 0) {
    found.warnings.push_back("profiles in " + folder + " are ignored: every user must be able to read it");
    return found;
  }
  const placement::Sysfs sysfs(root);
  std::map<MatchKey, std::vector<std::string>> cached;
  const auto what = [&](MatchKey key) {
    const auto known = cached.find(key);
    return known != cached.end() ? known->second
                                 : cached.emplace(key, identity(key, job, sysfs)).first->second;
  };
  std::vector<placement::Profile> fitting;
  for (const auto& name : placement::Sysfs(folder).names("/")) {
    if (!name.ends_with(".conf") || name.starts_with('.')) continue;
    const std::string path = folder + "/" + name;
    constexpr std::size_t longest = 64 * 1024;
    const auto file = read_regular_file(path, longest);
    if (!file || !only_owner_writes(file->status, owner)) {
      found.warnings.push_back("profile " + path +
                               " is ignored: it must be a readable file of up to 64 KiB, root's, "
                               "and not writable by others");
      continue;
    }
    try {
      auto profile = placement::parse_profile(file->text, path);
      if (matches(profile, what)) fitting.push_back(std::move(profile));
    } catch (const placement::Error& error) {
      found.warnings.push_back(std::string("profile ") + error.what());
    }
  }
  found.settings = merge(fitting);
  return found;
}

}  // namespace muster::spank
