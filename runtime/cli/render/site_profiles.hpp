// SPDX-License-Identifier: Apache-2.0
// Profiles of sites: what a node has, and the site's options. Files in share/muster/sites of the program's
// prefix, or the user's own.
#pragma once

#include <string>

#include "render/settings.hpp"

namespace muster::render {

/// A profile by its name, or a file by its path (with a / or the ending .toml).
/// @throws DescriptionError with the names of all profiles.
Settings read_profile(const std::string& name);

/// One line for each profile: its name and description.
std::string list_profiles();

/// The settings of a file. @throws DescriptionError
Settings read_settings(const std::string& path);

}  // namespace muster::render
