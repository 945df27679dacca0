// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <exception>
#include <iostream>
#include <string>

#include "muster/error.hpp"

/// Runs a rank's program and returns its exit code: what `run` returns, or the error's. Prints the error on
/// the one rank that is to report it.
template <typename Run>
int exit_code_of(const char* program, Run run) {
  // One write per line, so that the lines of several ranks do not mix: fprintf of glibc 2.41 writes pieces of
  // 128 bytes.
  auto const line = [program](const std::exception& error) {
    return program + std::string(": ") + error.what() + "\n";
  };
  try {
    return run();
  } catch (const muster::Error& error) {
    if (!error.reported_elsewhere()) std::cerr << line(error);
    return error.exit_code();
  } catch (const std::exception& error) {
    std::cerr << line(error);
    return 1;
  }
}
