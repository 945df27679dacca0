// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace muster::control {

/// Keeps child processes from inheriting the socket, also those that are forked and start no other program
/// (the workers of a DataLoader). A child that outlives this process would keep the connection open, and the
/// other side would not see that this process ended. Thread-safe.
void close_in_children(int socket);

}  // namespace muster::control
