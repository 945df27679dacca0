// SPDX-License-Identifier: Apache-2.0
// Declarations shared by the parts of the fake CUDA.
#pragma once

#include <cuda.h>

#include <string>

namespace fake_cuda {

/// An environment variable; empty if not set.
std::string get_env(const char* name);
/// Whether the context is current in the calling thread.
bool has_context();
/// Appends to fake_cuda_log().
void log_enqueued(const std::string& what, CUstream stream);
/// Logs that the host waited in a call, if `has`.
void log_host_wait(bool has, const char* call);

}  // namespace fake_cuda
