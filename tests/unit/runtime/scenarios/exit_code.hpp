// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdio>
#include <exception>

#include "muster/error.hpp"

/// What a rank's program ends with: the code that `run` returns, or the error's, after the line that the one
/// rank says which is chosen to.
template <typename Run>
int exit_code_of(const char* program, Run run) {
  try {
    return run();
  } catch (const muster::Error& error) {
    if (!error.reported_elsewhere()) std::fprintf(stderr, "%s: %s\n", program, error.what());
    return error.exit_code();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s: %s\n", program, error.what());
    return 1;
  }
}
