// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace muster::cli::test {

struct Result {
  int code = -1;       ///< -1: ended by a signal
  std::string output;  ///< standard output, and error unless it was sent elsewhere
};

/// Runs a shell command under a deadline of a minute.
Result shell(const std::string& command);

/// Runs the built `muster` with these arguments, as a shell reads them.
Result run_muster(const std::string& arguments);

/// "--topology FILE" for a node of two NUMA domains with two GPUs and three NICs.
extern const std::string two_domains;

}  // namespace muster::cli::test
