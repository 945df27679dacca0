// SPDX-License-Identifier: Apache-2.0
// decode_picture FILE [SHRINK [SIDE LEFT TOP RIGHT BOTTOM]]: writes a picture's pixels to standard output as
// PPM, for compare_with_pillow.py; with a box, as they are after it is cut out and scaled.
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "data/mapped_file.hpp"
#include "pictures/encoded_picture.hpp"
#include "pictures/resize.hpp"

using namespace muster;

int main(int argc, char** argv) {
  if (argc != 2 && argc != 3 && argc != 8) return 2;
  try {
    const data::MappedFile file(argv[1]);
    pictures::EncodedPicture encoded(file.bytes());
    pictures::Picture picture = encoded.decode(argc > 2 ? std::atoi(argv[2]) : 1);
    if (argc == 8) {
      const int side = std::atoi(argv[3]);
      pictures::Picture scaled(side, side);
      const pictures::Box box{std::atof(argv[4]), std::atof(argv[5]), std::atof(argv[6]), std::atof(argv[7])};
      pictures::resize(picture, {box, true, false}, side, scaled.pixels.data());
      picture = std::move(scaled);
    }
    std::printf("P6 %d %d 255\n", picture.width, picture.height);
    std::fwrite(picture.pixels.data(), 1, picture.pixels.size(), stdout);
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
