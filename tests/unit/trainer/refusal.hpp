// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "catch.hpp"
#include "muster/error.hpp"

/// What is said of bad input, in one line and with the exit code of bad usage; empty when it is accepted.
template <typename Call>
std::string refusal_of(Call&& call) {
  try {
    call();
  } catch (const muster::Error& error) {
    CHECK(error.exit_code() == 64);
    CHECK(std::string(error.what()).find('\n') == std::string::npos);
    return error.what();
  }
  return "";
}
