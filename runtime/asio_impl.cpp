// SPDX-License-Identifier: Apache-2.0
// Asio's implementation, compiled once instead of in every file that includes Asio.
#include <asio/impl/src.hpp>
