// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace muster::cli::test {

struct Result {
  int code = -1;       ///< -1: ended by a signal
  std::string output;  ///< standard output, and standard error unless redirected
};

/// Runs a shell command, which must set its own deadline.
Result shell(const std::string& command);

/// Runs the built `muster` with these arguments in a shell, with a deadline of one minute.
Result run_muster(const std::string& arguments);

/// "--topology FILE" for a node of two NUMA domains with two GPUs and three NICs.
extern const std::string two_domains;

}  // namespace muster::cli::test
