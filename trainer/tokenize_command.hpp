// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace muster {

/// `muster-train tokenize …`: writes texts as shards of tokens. argv[0] is "tokenize". Returns the exit code.
/// @throws muster::Error: usage (wrong options, tokenizer or text, an output that exists), system.
int tokenize_command(int argc, const char* const* argv);

}  // namespace muster
