// SPDX-License-Identifier: Apache-2.0
// What the parts of the test double of CUDA share.
#pragma once

#include <cuda.h>

#include <string>

namespace fake_cuda {

/// Of the environment; empty when it is not set.
std::string variable(const char* name);
/// The calling thread has made it current.
bool has_context();
/// Into fake_cuda_log().
void tell_enqueued(const std::string& what, CUstream stream);
/// The same of a call in which the host waited, unless it need not have.
void host_waited(bool has, const char* call);

}  // namespace fake_cuda
