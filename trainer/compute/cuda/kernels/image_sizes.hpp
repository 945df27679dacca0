// SPDX-License-Identifier: Apache-2.0
// Sizes that kernels on images take, shared by host and device.
#pragma once

namespace muster::compute::cuda {

/// A PoolShape and the size of its result.
struct PoolSizes {
  int height, width, channels;
  int window, stride, padding;
  int out_height, out_width;
};

/// Images whose every second pixel is taken, with `front` zero channels in front of theirs.
struct ShortcutSizes {
  int height, width, channels;
  int out_channels, front;
};

}  // namespace muster::compute::cuda
