// SPDX-License-Identifier: Apache-2.0
#include "render/render_file.hpp"

#include "render/job_description.hpp"
#include "render/site_profiles.hpp"
#include "render/targets.hpp"

namespace muster::render {

namespace {

/// The description's own settings above those of a profile.
Settings with_profile(const std::string& name, const Settings& own) {
  auto settings = read_profile(name);
  settings.erase("description");
  overlay(settings, own);
  settings["profile"] = {name.substr(name.find_last_of('/') + 1), "--profile"};
  return settings;
}

JobDescription describe(const std::string& profile, const Settings& own, const std::string& file) {
  auto job = make_description(profile.empty() ? own : with_profile(profile, own), file);
  if (!profile.empty()) job.profile = std::get<std::string>(job.settings.at("profile").value);
  return job;
}

Layouts read_layouts(const JobDescription& job, const Settings& own, const std::string& file) {
  Layouts layouts;
  for (const auto& name : texts_of(job, "slurm.layouts")) {
    const auto profile = read_profile(name);
    const auto description = profile.find("description");
    std::string title = name;
    if (description != profile.end())
      for (const auto& line : std::get<std::vector<std::string>>(description->second.value))
        title += (title == name ? ": " : " ") + line;
    layouts.emplace_back(title, describe(name, own, file));
  }
  return layouts;
}

}  // namespace

std::string render_file(const std::string& file, const std::string& target, const std::string& profile,
                        const std::vector<std::string>& assignments) {
  auto own = read_settings(file);
  for (const auto& assignment : assignments) overlay(own, parse_assignment(assignment));
  auto chosen = profile;
  if (const auto found = own.find("profile"); chosen.empty() && found != own.end())
    chosen = std::get<std::string>(found->second.value);
  const auto job = describe(chosen, own, file);
  if (target == "slurm") return slurm_script(job, read_layouts(job, own, file));
  if (target == "mpirun") return mpirun_script(job);
  return target == "jobset" ? jobset_manifest(job) : mpijob_manifest(job);
}

}  // namespace muster::render
