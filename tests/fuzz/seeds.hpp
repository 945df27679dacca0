// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "frames.hpp"

namespace muster::fuzz {

/// Writes a valid input from which a fuzzer starts.
void seed(const std::string& fuzzer, const std::string& name, const Bytes& bytes);
void seed(const std::string& fuzzer, const std::string& name, const std::string& text);

/// Seeds of the fuzzers of messages between processes.
void seed_messages();

}  // namespace muster::fuzz
