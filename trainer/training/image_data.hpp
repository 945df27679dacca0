// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "compute/precision.hpp"
#include "compute/token.hpp"
#include "muster/sampler.hpp"

namespace muster {

/// Loads images as a network's input [side, side, channels], one after the other. Not thread-safe.
template <typename Real>
class ImageLoader {
 public:
  virtual ~ImageLoader() = default;
  /// Says which samples will be loaded soon, in this order, so that threads can prepare them. Replaces what
  /// was said before.
  virtual void prefetch(std::span<const Share> /*samples*/) {}
  /// Loads samples [first, first + count) to train on, and their labels.
  /// @throws muster::Error: usage when an image cannot be used, system when a file cannot be read.
  virtual void load(std::uint64_t first, std::uint64_t count, Real* pixels, compute::Token* labels) = 0;
  /// Loads held-out images [first, first + count), and throws as load(). Returns their number: fewer when
  /// some cannot be used and are to be left out.
  virtual std::uint64_t load_held_out(std::uint64_t first, std::uint64_t count, Real* pixels,
                                      compute::Token* labels) = 0;
  /// Names of the images that were left out so far, with the reasons, in the order of the names.
  virtual std::vector<std::string> left_out() const { return {}; }
};

/// How samples are made of images.
struct SampleSettings {
  std::uint64_t seed = 0;
  bool augment = true;
  int side = 0;     ///< pixels of the network's input in each direction
  int threads = 1;  ///< of this process that share the work of loading
};

/// Labelled images of a workload.
class ImageData {
 public:
  virtual ~ImageData() = default;
  /// Images to train on, and held out.
  virtual std::uint64_t count() const noexcept = 0;
  virtual std::uint64_t held_out() const noexcept = 0;
  virtual int classes() const noexcept = 0;
  virtual int channels() const noexcept = 0;
  /// Pixels of the network's input in each direction, if no other number is asked for.
  virtual int side() const noexcept = 0;
  /// What augmentation does: "cropped and mirrored".
  virtual const char* augmentation() const noexcept = 0;
  virtual std::uint64_t fingerprint() const noexcept = 0;
  /// The data and the order of samples must outlive the loader.
  virtual std::unique_ptr<ImageLoader<float>> make_loader(const SampleSettings& settings,
                                                          const Permutation& order, float) const = 0;
  virtual std::unique_ptr<ImageLoader<bfloat16>> make_loader(const SampleSettings& settings,
                                                             const Permutation& order, bfloat16) const = 0;
};

/// The image of a sample. Samples are numbered through all epochs, each of which uses every image once.
inline std::uint64_t image_of(const Permutation& order, std::uint64_t sample) noexcept {
  return order.at(sample / order.count(), sample % order.count());
}

}  // namespace muster
