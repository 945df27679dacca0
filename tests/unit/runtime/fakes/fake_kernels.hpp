// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>
#include <span>

struct FakeLaunch {
  unsigned blocks[3] = {1, 1, 1};
  unsigned threads = 1;
  std::size_t shared_bytes = 0;
};

/// A kernel as the fake CUDA runs it: on host memory, with the product's own code for each element.
struct FakeKernel {
  const char* name;
  /// Returns a launch that holds copies of the arguments; `arguments` is cuLaunchKernel's.
  std::function<void()> (*prepare)(const FakeLaunch& launch, void** arguments);
  std::span<const std::size_t> parameter_bytes;
};

/// Null if no kernel has that name.
const FakeKernel* find_fake_kernel(const char* name);
/// The same for the trainer's kernels. The definition that knows none is weak.
const FakeKernel* find_trainer_kernel(const char* name);
