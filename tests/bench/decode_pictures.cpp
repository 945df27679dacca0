// SPDX-License-Identifier: Apache-2.0
// decode_pictures FOLDER SIDE COUNT: loads samples to train on as muster-train does, on one thread, and
// prints how many a second of processor time. For tests/bench/pictures.
#include <fmt/format.h>

#include <cstdlib>
#include <ctime>

#include "training/picture_data.hpp"

using namespace muster;

namespace {

double processor_seconds() {
  timespec time{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  const int side = std::atoi(argv[2]);
  const std::uint64_t count = std::strtoull(argv[3], nullptr, 10), batch = 20;
  const PictureData data(picture_sets::open_picture_set({argv[1], "", "", 0}), {false, 0});
  const Permutation order(data.count(), 1);
  const auto loader = data.make_loader({1, true, side, 1}, order, 0.0f);
  std::vector<float> pixels(batch * 3 * static_cast<std::size_t>(side) * static_cast<std::size_t>(side));
  std::vector<compute::Token> labels(batch);
  loader->load(0, batch, pixels.data(), labels.data());
  const double from = processor_seconds();
  for (std::uint64_t at = 0; at < count; at += batch) loader->load(at, batch, pixels.data(), labels.data());
  fmt::print("{}\n", static_cast<double>((count + batch - 1) / batch * batch) / (processor_seconds() - from));
}
