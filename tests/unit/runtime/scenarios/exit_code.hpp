// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdio>
#include <exception>

#include "muster/error.hpp"

/// Runs a rank's program and returns its exit code: what `run` returns, or the error's. Prints the error on
/// the one rank that is to report it.
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
