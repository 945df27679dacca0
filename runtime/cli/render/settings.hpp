// SPDX-License-Identifier: Apache-2.0
// The keys of a job description, with the place where each value stands.
#pragma once

#include <cstdint>
#include <map>
#include <stdexcept>
#include <string>
#include <variant>
#include <vector>

namespace muster::render {

/// A description that cannot be rendered: one line with place, problem and what to do.
class DescriptionError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

using Value = std::variant<std::string, std::int64_t, bool, std::vector<std::string>>;

struct Setting {
  Value value;
  std::string origin;  ///< "job.toml, line 3" or "--set nodes=4"
};

/// By dotted key, such as "nodes" or "slurm.partition".
using Settings = std::map<std::string, Setting>;

/// The settings of a TOML text. `file` is its name in errors.
/// @throws DescriptionError for text that is not TOML, an unknown key or a value of a wrong type.
Settings parse_settings(const std::string& text, const std::string& file);

/// One setting from "key=value". A list or table is written as in TOML, everything else as it is.
/// @throws DescriptionError
Settings parse_assignment(const std::string& assignment);

/// Adds the settings of `upper`, which replace those of the same key. A list replaces a list.
void overlay(Settings& settings, const Settings& upper);

/// A hash of all keys and values, without their places: 16 hexadecimal digits.
std::string content_hash(const Settings& settings);

[[noreturn]] void reject(const std::string& origin, const std::string& problem);

}  // namespace muster::render
