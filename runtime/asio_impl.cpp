// SPDX-License-Identifier: Apache-2.0
// Asio's own code, compiled once and not in every file that includes it.
#include <asio/impl/src.hpp>
