// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "catch.hpp"
#include "muster/error.hpp"

/// Returns the error text of bad input; empty when the input is accepted. Checks that the text is one line
/// and that the exit code is that of wrong usage.
template <typename Call>
std::string usage_error_text(Call&& call) {
  try {
    call();
  } catch (const muster::Error& error) {
    CHECK(error.exit_code() == 64);
    CHECK(std::string(error.what()).find('\n') == std::string::npos);
    return error.what();
  }
  return "";
}
