// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <stdexcept>
#include <string>

#include "text/printable.hpp"

namespace muster::placement {

/// The only exception that the placement library throws. what() is one printable line: what is wrong, where,
/// and what to do.
class Error : public std::runtime_error {
 public:
  explicit Error(std::string what) : std::runtime_error(printable(std::move(what))) {}
};

}  // namespace muster::placement
