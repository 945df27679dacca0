// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <set>
#include <tuple>
#include <vector>

#include "catch.hpp"
#include "data/cifar.hpp"
#include "data/synthetic_shapes.hpp"
#include "strategies/data_parallel/replica.hpp"
#include "strategies/pipeline/plan.hpp"
#include "temporary_folder.hpp"
#include "trainer/data/refusal.hpp"
#include "trainer/models/model_fixture.hpp"
#include "training/network_workload.hpp"
#include "training/plane_data.hpp"
#include "training/sample_images.hpp"

using namespace muster;

namespace {

/// Writes drawn shapes as CIFAR-10's files, of which five have the training images.
data::LabelledSet drawn_shapes(const TemporaryFolder& folder, std::uint64_t training,
                               std::uint64_t held_out) {
  const auto write = [&](const char* name, std::uint64_t stream, std::uint64_t first, std::uint64_t last) {
    std::string bytes;
    for (std::uint64_t image = first; image < last; ++image) {
      const auto shape = data::draw_shape(3, stream, image, 10);
      bytes += static_cast<char>(shape.label);
      bytes.append(shape.planes.begin(), shape.planes.end());
    }
    write_file(folder / name, bytes);
  };
  const auto& names = data::cifar10().training;
  for (std::uint64_t file = 0; file < 5; ++file) {
    const std::uint64_t at = training * file / 5, end = training * (file + 1) / 5;
    write(names[file], 1, at, end);
  }
  write("test_batch.bin", 2, 0, held_out);
  return data::read_cifar(folder.path());
}

NetworkWorkload small_workload(const TemporaryFolder& folder, std::uint64_t training, std::uint64_t held_out,
                               bool augment = true) {
  return NetworkWorkload(std::make_unique<PlaneData>(drawn_shapes(folder, training, held_out)),
                         {"resnet20", 1, 8, augment, 5});
}

}  // namespace

TEST_CASE("crops depend on seed and sample alone and take every place", "[networks]") {
  std::set<std::tuple<int, int, bool>> seen;
  for (std::uint64_t sample = 0; sample < 3000; ++sample) {
    const Crop crop = draw_crop(7, sample);
    CHECK(std::abs(crop.x) <= crop_padding);
    CHECK(std::abs(crop.y) <= crop_padding);
    seen.emplace(crop.x, crop.y, crop.mirror);
  }
  CHECK(seen.size() == 162);
  int equal = 0;
  for (std::uint64_t sample = 0; sample < 100; ++sample) {
    const Crop a = draw_crop(7, sample), b = draw_crop(8, sample), again = draw_crop(7, sample);
    CHECK(std::tuple(a.x, a.y, a.mirror) == std::tuple(again.x, again.y, again.mirror));
    equal += std::tuple(a.x, a.y, a.mirror) == std::tuple(b.x, b.y, b.mirror);
  }
  CHECK(equal < 10);
}

TEST_CASE("images are normalized, moved, mirrored and scaled", "[networks]") {
  const TemporaryFolder folder;
  const auto data = drawn_shapes(folder, 5, 1);
  const auto planes = data.training->planes(0);
  const auto expected = [&](int channel, int y, int x) {
    const auto c = static_cast<std::size_t>(channel);
    const bool outside = y < 0 || y > 31 || x < 0 || x > 31;
    const float value =
        outside ? 0.0f : static_cast<float>(planes[static_cast<std::size_t>((channel * 32 + y) * 32 + x)]);
    return (value / 255 - data.mean[c]) / data.deviation[c];
  };
  SampleImages<float> images(data, 32);
  std::vector<float> found(images.elements());
  for (const Crop& crop : {Crop{}, Crop{3, -2, false}, Crop{-4, 4, true}}) {
    images.load(*data.training, 0, crop, found.data());
    float worst = 0;
    for (int i = 0; i < 3072; ++i) {
      const int channel = i % 3, x = i / 3 % 32, y = i / 96;
      const int from = (crop.mirror ? 31 - x : x) + crop.x;
      worst =
          std::max(worst, std::abs(found[static_cast<std::size_t>(i)] - expected(channel, y + crop.y, from)));
    }
    CHECK(worst < 1e-5f);
  }
  // At twice the size, a pixel's centre lies a quarter of a pixel from the nearest one.
  SampleImages<float> large(data, 64);
  std::vector<float> scaled(large.elements());
  large.load(*data.training, 0, {}, scaled.data());
  const auto at = [&](int y, int x) { return scaled[static_cast<std::size_t>((y * 64 + x) * 3 + 1)]; };
  CHECK(at(0, 0) == Approx(expected(1, 0, 0)).margin(1e-5));
  CHECK(at(0, 11) == Approx(0.75f * expected(1, 0, 5) + 0.25f * expected(1, 0, 6)).margin(1e-5));
  CHECK(at(10, 0) == Approx(0.25f * expected(1, 4, 0) + 0.75f * expected(1, 5, 0)).margin(1e-5));
  CHECK(at(63, 63) == Approx(expected(1, 31, 31)).margin(1e-5));
}

TEST_CASE("networks count every held-out image once over unequal shares", "[networks]") {
  const TemporaryFolder folder;
  const auto workload = small_workload(folder, 20, 77);
  auto compute = test_compute<float>();
  const auto model = workload.build(compute, 2, 0);
  model->tensors().initialize(1);
  const Validation whole = model->validate_share(0, 1, false);
  CHECK(whole.accuracy.weight == 77);
  const double in_groups = model->validate_share(0, 1, true).loss.sum;
  for (const auto& [ranks, fixed] : {std::pair{3, false}, std::pair{80, false}, std::pair{3, true}}) {
    Validation sum;
    for (int rank = 0; rank < ranks; ++rank) {
      const Validation share = model->validate_share(rank, ranks, fixed);
      sum.loss.sum += share.loss.sum;
      sum.accuracy.sum += share.accuracy.sum;
      sum.accuracy.weight += share.accuracy.weight;
    }
    CHECK(sum.accuracy.sum == whole.accuracy.sum);
    CHECK(sum.accuracy.weight == 77);
    if (fixed) CHECK(sum.loss.sum == in_groups);  // to the bit
    CHECK(sum.loss.sum == Approx(whole.loss.sum).epsilon(1e-5));
  }
}

TEST_CASE("validation uses the running statistics and no crops", "[networks]") {
  const TemporaryFolder folder;
  const auto workload = small_workload(folder, 20, 9);
  auto compute = test_compute<float>();
  const auto model = workload.build(compute, 4, 0);
  model->tensors().initialize(1);
  const double before = model->validate_share(0, 1, false).loss.sum;
  model->load_samples(0, 4);
  model->gradients(0.25f, [](std::size_t) {});
  CHECK(model->validate_share(0, 1, false).loss.sum == before);
  model->tensors().update_statistics(compute);
  CHECK(model->validate_share(0, 1, false).loss.sum != before);
}

TEST_CASE("an epoch later an image is cropped in another way", "[networks]") {
  const TemporaryFolder folder;
  const auto compute_losses = [&](bool augment) {
    const auto workload = small_workload(folder, 5, 1, augment);
    auto compute = test_compute<float>();
    const auto model = workload.build(compute, 1, 0);
    model->tensors().initialize(1);
    std::set<double> losses;
    for (std::uint64_t sample = 0; sample < 40; sample += 5) {
      std::uint64_t same = sample;  // the epoch's sample of image 0
      while (workload.image_index(same) != 0) ++same;
      model->load_samples(same, 1);
      model->gradients(1.0f, [](std::size_t) {});
      losses.insert(compute.loss());
    }
    return losses.size();
  };
  CHECK(compute_losses(true) >= 7);
  CHECK(compute_losses(false) == 1);
}

TEST_CASE("the gradient's norm is that of the trained tensors, without statistics", "[networks]") {
  const TemporaryFolder folder;
  const auto workload = small_workload(folder, 20, 1);
  auto compute = test_compute<float>();
  const auto model = workload.build(compute, 4, 0);
  model->tensors().initialize(1);
  model->load_samples(0, 4);
  model->gradients(0.25f, [](std::size_t) {});
  double trained = 0, statistics = 0;
  const auto gradients = model->tensors().gradients();
  for (std::size_t i = 0; i < gradients.size(); ++i)
    (i < model->tensors().table().trained_size ? trained : statistics) += double{gradients[i]} * gradients[i];
  REQUIRE(statistics > 0.01 * trained);
  Job job = Job::join({.device = Device::cpu});
  Replica replica({{}, 4, 1}, workload, compute, job.host_world());
  replica.initialize();
  CHECK(replica.step(0, 0, 1e-3, {}).gradient_norm == Approx(std::sqrt(trained)).epsilon(1e-6));
  job.leave();
}

TEST_CASE("a residual network learns to tell shapes that it was not trained on", "[networks]") {
  const TemporaryFolder folder;
  const NetworkWorkload workload(std::make_unique<PlaneData>(drawn_shapes(folder, 600, 200)),
                                 {"resnet20", 1, 16, true, 5});
  Job job = Job::join({.device = Device::cpu});
  auto float_compute = test_compute<float>(2);
  auto bfloat16_compute = test_compute<bfloat16>(2);
  const Replica::Settings settings{{}, 60, 1};
  const bool rounds = GENERATE(false, true);
  Replica replica = rounds ? Replica(settings, workload, bfloat16_compute, job.host_world())
                           : Replica(settings, workload, float_compute, job.host_world());
  replica.initialize();
  for (std::int64_t step = 0; step < 60; ++step) REQUIRE(replica.step(step, step * 60, 3e-3, {}).finite);
  Validation found = replica.validate_share();
  replica.all_reduce_validation(found);
  CAPTURE(found.loss.value(), found.accuracy.value());
  CHECK(found.accuracy.value() > 0.3);  // guessing has 0.1
  job.leave();
}

TEST_CASE("a pipeline divides a network by its blocks", "[networks][pipeline]") {
  const TemporaryFolder folder;
  const NetworkWorkload workload = small_workload(folder, 20, 10);
  CHECK(workload.layer_kinds() == std::vector<int>{0, 1, 1, 1, 2, 3, 3, 4, 5, 6, 7});
  Replica::Settings training;
  training.batch = 1024;  // so that activations need more memory than parameters
  const auto division = [&](pipeline::Balance balance) {
    return pipeline::make_plan({pipeline::ScheduleKind::gpipe, 2, 4, 1, balance, {}}, training, workload, 0,
                               2)
        .stages;
  };
  // Activations shrink from block to block, and parameters grow.
  CHECK(division(pipeline::Balance::memory).front().last < division(pipeline::Balance::flops).front().last);
  CHECK(division(pipeline::Balance::parameters).front().last > 7);
  double flops = 0;
  for (const models::LayerRange& stage : division(pipeline::Balance::flops))
    flops += workload.stage_flops(stage);
  CHECK(flops == Approx(workload.flops_per_sample()));
  const pipeline::Settings settings{pipeline::ScheduleKind::gpipe, 2, 4};
  training.on_device = true;
  check_plan(settings, training, workload, 2);
}
