// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>

struct FakeLaunch {
  unsigned blocks[3] = {1, 1, 1};
  unsigned threads = 1;
  std::size_t shared_bytes = 0;
};

/// A kernel as the test double of CUDA runs it: on host memory, by the same lines for each element.
struct FakeKernel {
  const char* name;
  /// A launch, with a copy of the arguments as cuLaunchKernel takes them.
  std::function<void()> (*prepare)(const FakeLaunch& launch, void** arguments);
};

/// Null when there is none of that name.
const FakeKernel* find_fake_kernel(const char* name);
/// The same for others than the reducer's; the double that knows of none is weak.
const FakeKernel* find_more_kernels(const char* name);
