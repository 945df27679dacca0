// SPDX-License-Identifier: Apache-2.0
#include "training/picture_sampler.hpp"

#include <fmt/format.h>

#include "pictures/crop.hpp"
#include "pictures/encoded_picture.hpp"
#include "pictures/resize.hpp"
#include "text/printable.hpp"

namespace muster {
namespace {

/// Decodes the part of a picture that becomes the network's input.
std::vector<std::uint8_t> make_pixels(std::span<const std::uint8_t> bytes, const SampleSettings& settings,
                                      std::optional<std::uint64_t> sample) {
  pictures::EncodedPicture encoded(bytes);
  const int width = encoded.width(), height = encoded.height(), side = settings.side;
  pictures::Crop crop = sample ? pictures::draw_crop(settings.seed, *sample, width, height)
                               : pictures::middle_crop(width, height, side);
  const pictures::Picture picture = encoded.decode(pictures::choose_shrink(crop.box, side));
  const double x = static_cast<double>(picture.width) / width,
               y = static_cast<double>(picture.height) / height;
  crop.box = {crop.box.left * x, crop.box.top * y, crop.box.right * x, crop.box.bottom * y};
  std::vector<std::uint8_t> pixels(std::size_t{3} * static_cast<std::size_t>(side) *
                                   static_cast<std::size_t>(side));
  pictures::resize(picture, crop, side, pixels.data());
  return pixels;
}

}  // namespace

PictureSample PictureSampler::read(const picture_sets::PictureSource& source, std::uint64_t picture,
                                   std::optional<std::uint64_t> sample) const {
  PictureSample made;
  made.label = source.label(picture);
  try {
    std::vector<std::uint8_t> buffer;
    made.pixels = make_pixels(source.read(picture, buffer), settings_, sample);
  } catch (const pictures::BadPicture& bad) {
    const std::string name = printable(source.name(picture));
    if (skip_) {
      made.left_out.push_back(fmt::format("{}: {}", name, printable(bad.what())));
    } else {
      made.error =
          Error(ErrorCode::usage,
                fmt::format("the picture {} cannot be used: {} (--on-bad-image=skip leaves such ones out)",
                            name, printable(bad.what())));
    }
  } catch (const Error& error) {
    made.error = error;
  } catch (const std::bad_alloc&) {
    made.error = Error(ErrorCode::system,
                       fmt::format("no memory to decode the picture {}", printable(source.name(picture))));
  }
  return made;
}

PictureSample PictureSampler::training_sample(std::uint64_t sample) const {
  const std::optional<std::uint64_t> augment = settings_.augment ? std::optional(sample) : std::nullopt;
  const std::uint64_t epoch = sample / order_.count(), place = sample % order_.count();
  std::vector<std::string> left_out;
  for (std::uint64_t i = 0; i < order_.count(); ++i) {
    PictureSample made = read(*set_.training, order_.at(epoch, (place + i) % order_.count()), augment);
    left_out.insert(left_out.end(), made.left_out.begin(), made.left_out.end());
    if (!made.error && made.pixels.empty()) continue;
    made.left_out = std::move(left_out);
    return made;
  }
  PictureSample none;
  none.error = Error(ErrorCode::usage, "no picture to train on can be decoded");
  return none;
}

PictureSample PictureSampler::held_out_sample(std::uint64_t picture) const {
  return read(*set_.held_out, picture, std::nullopt);
}

}  // namespace muster
