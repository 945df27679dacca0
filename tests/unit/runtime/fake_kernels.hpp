// SPDX-License-Identifier: Apache-2.0
#pragma once

/// A kernel of the reducer's as the test double of CUDA runs it: on host memory, by the same lines for each
/// element.
struct FakeKernel {
  const char* name;
  void (*run)(void** arguments);  ///< as cuLaunchKernel takes them
};

/// Null when there is none of that name.
const FakeKernel* find_fake_kernel(const char* name);
