// SPDX-License-Identifier: Apache-2.0
#include <set>

#include "catch.hpp"
#include "data/idx.hpp"
#include "data/synthetic_digits.hpp"
#include "models/conv_net.hpp"
#include "models/mnist_cnn.hpp"
#include "strategies/data_parallel/replica.hpp"
#include "temporary_folder.hpp"
#include "trainer/data/refusal.hpp"
#include "trainer/models/model_fixture.hpp"
#include "training/network_workload.hpp"
#include "training/plane_data.hpp"

using namespace muster;

namespace {

/// Writes synthetic digits as MNIST's files.
data::LabelledSet drawn_images(const TemporaryFolder& folder, std::uint32_t training,
                               std::uint32_t held_out) {
  for (const int set : {0, 1}) {
    std::vector<std::uint8_t> pixels, labels;
    const std::uint32_t count = set == 0 ? training : held_out;
    for (std::uint32_t image = 0; image < count; ++image) {
      const auto digit = data::draw_digit(3, static_cast<std::uint64_t>(set) + 1, image);
      pixels.insert(pixels.end(), digit.pixels.begin(), digit.pixels.end());
      labels.push_back(digit.label);
    }
    const std::uint32_t extents[] = {count, 28, 28};
    const auto at = static_cast<std::size_t>(2 * set);
    data::write_idx(folder / data::ImageSet::names[at], extents, pixels);
    data::write_idx(folder / data::ImageSet::names[at + 1], std::span(extents).first(1), labels);
  }
  return data::ImageSet::read(folder.path(), 28, 10);
}

const NetworkWorkload::Settings mnist_settings{"mnist-cnn", 1, 0, false, 5};

}  // namespace

TEST_CASE("settings that CIFAR's files make ineffective are refused, and not their defaults", "[images]") {
  const TemporaryFolder folder;
  for (const char* name : {"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin", "data_batch_4.bin",
                           "data_batch_5.bin", "test_batch.bin"})
    write_file(folder / name, std::string(1 + 3 * 32 * 32, '\0'));
  const auto refusal = [&](const auto& set) {
    Options options;
    options.model_name = "resnet20";
    options.data = folder.path().string();
    for (const char* name :
         {"validation-data", "validation-fraction", "label-column", "on-bad-image", "data-threads"})
      options.origins[name] = "run.toml:1";
    set(options);
    return usage_error_text([&] { read_workload(options); });
  };
  CHECK(refusal([](Options&) {}).empty());  // as --print-config prints them
  CHECK(refusal([](Options& o) {
          o.data_threads = 2;
        }).starts_with("--data-threads 2 (run.toml:1) has no effect with CIFAR's files in --data "));
  CHECK(refusal([](Options& o) { o.validation_fraction = 0.2; }).starts_with("--validation-fraction 0.2 ("));
  CHECK(refusal([](Options& o) { o.on_bad_image = "skip"; }).starts_with("--on-bad-image skip ("));
}

TEST_CASE("digits are drawn from a seed, all ten, in varying forms", "[digits]") {
  std::array<int, 10> often{};
  std::set<std::array<std::uint8_t, 784>> different;
  for (std::uint64_t image = 0; image < 250; ++image) {
    const auto digit = data::draw_digit(1, 1, image), again = data::draw_digit(1, 1, image);
    CHECK(digit.pixels == again.pixels);
    ++often.at(digit.label);
    different.insert(digit.pixels);
    // Neither empty nor full, and the border is mostly background.
    int dark = 0;
    for (const auto pixel : digit.pixels) dark += pixel > 80;
    CHECK(dark > 10);
    CHECK(dark < 350);
  }
  CHECK(different.size() == 250);
  for (const int count : often) CHECK(count > 10);
  CHECK(data::draw_digit(2, 1, 0).pixels != data::draw_digit(1, 1, 0).pixels);
  CHECK(data::draw_digit(1, 2, 0).pixels != data::draw_digit(1, 1, 0).pixels);
}

TEST_CASE("each image occurs exactly once per epoch, over any number of ranks", "[images]") {
  const TemporaryFolder folder;
  const NetworkWorkload workload(std::make_unique<PlaneData>(drawn_images(folder, 101, 7)), mnist_settings);
  REQUIRE(workload.samples_per_epoch() == 101);
  const std::uint64_t batch = 12;
  std::vector<std::uint64_t> orders[2];
  for (int ranks = 1; ranks <= 5; ++ranks) {
    std::vector<std::uint64_t> taken;
    for (std::uint64_t step = 0; step * batch < 202; ++step) {  // two epochs; steps cross their boundary
      for (int rank = 0; rank < ranks; ++rank) {
        const Share share = share_of(batch, rank, ranks);
        for (std::uint64_t i = share.begin; i < share.end; ++i)
          taken.push_back(workload.image_index(step * batch + i));
      }
    }
    for (const std::size_t epoch : {0, 1}) {
      orders[epoch].assign(taken.begin() + static_cast<std::ptrdiff_t>(epoch * 101),
                           taken.begin() + static_cast<std::ptrdiff_t>((epoch + 1) * 101));
      const std::set<std::uint64_t> all(orders[epoch].begin(), orders[epoch].end());
      CHECK(all.size() == 101);
      CHECK(*all.rbegin() == 100);
    }
    CHECK(orders[0] != orders[1]);
  }
}

TEST_CASE("validation counts every held-out image once over unequal shares", "[images]") {
  const TemporaryFolder folder;
  const NetworkWorkload workload(std::make_unique<PlaneData>(drawn_images(folder, 20, 77)), mnist_settings);
  auto compute = test_compute<float>();
  const auto model = workload.build(compute, 2, 0);
  model->tensors().initialize(1);
  const Validation whole = model->validate_share(0, 1, false);
  CHECK(whole.accuracy.weight == 77);
  CHECK(whole.accuracy.sum == std::floor(whole.accuracy.sum));
  const double in_groups = model->validate_share(0, 1, true).loss.sum;
  for (const auto& [ranks, fixed] : {std::pair{2, false}, std::pair{3, false}, std::pair{80, false},
                                     std::pair{2, true}, std::pair{3, true}, std::pair{80, true}}) {
    Validation sum;
    for (int rank = 0; rank < ranks; ++rank) {
      const Validation share = model->validate_share(rank, ranks, fixed);
      sum.loss.sum += share.loss.sum;
      sum.loss.weight += share.loss.weight;
      sum.accuracy.sum += share.accuracy.sum;
      sum.accuracy.weight += share.accuracy.weight;
    }
    CHECK(sum.accuracy.sum == whole.accuracy.sum);
    CHECK(sum.accuracy.weight == 77);
    CHECK(sum.loss.weight == 77);
    if (fixed) CHECK(sum.loss.sum == in_groups);  // to the bit
    CHECK(sum.loss.value() == Approx(whole.loss.value()).epsilon(1e-6));
  }
}

TEST_CASE("dropout and images depend on the sample's number, not on the rank or the batch", "[images]") {
  const TemporaryFolder folder;
  const NetworkWorkload workload(std::make_unique<PlaneData>(drawn_images(folder, 20, 2)), mnist_settings);
  auto compute = test_compute<float>();
  const auto several = workload.build(compute, 4, 0), one = workload.build(compute, 1, 0);
  several->tensors().initialize(1);
  one->tensors().initialize(1);
  const auto compute_loss = [&](muster::Model& model) {
    model.gradients(1.0f, [](std::size_t) {});
    return compute.loss();
  };
  several->load_samples(33, 4);
  const double together = compute_loss(*several);
  double apart = 0;
  std::set<double> losses;
  for (std::uint64_t sample = 33; sample < 37; ++sample) {
    one->load_samples(sample, 1);
    const double loss = compute_loss(*one);
    apart += loss;
    losses.insert(loss);
  }
  CHECK(together == Approx(apart).epsilon(1e-5));
  CHECK(losses.size() == 4);
  one->load_samples(33 + 20, 1);  // an epoch later: perhaps another image, certainly another dropout
  CHECK(losses.count(compute_loss(*one)) == 0);
}

TEST_CASE("images are normalized as in Horovod's example, and nothing is dropped in validation", "[images]") {
  const TemporaryFolder folder;
  const NetworkWorkload workload(std::make_unique<PlaneData>(drawn_images(folder, 20, 1)), mnist_settings);
  const auto set = data::ImageSet::read(folder.path(), 28, 10);
  auto compute = test_compute<float>();
  const auto model = workload.build(compute, 2, 0);
  model->tensors().initialize(1);
  model->load_samples(0, 2);  // its dropout must not affect the validation
  const Validation found = model->validate_share(0, 1, false);
  models::ConvNet<float> network(models::mnist_cnn(), 1, compute);
  network.tensors().initialize(1);
  std::vector<float> pixels;
  for (const std::uint8_t pixel : set.held_out->planes(0))
    pixels.push_back(static_cast<float>((pixel / 255.0 - 0.1307) / 0.3081));
  const compute::Token label = set.held_out->label(0);
  CHECK(found.loss.value() == Approx(network.loss(pixels.data(), &label, 1).loss).epsilon(1e-5));
}

TEST_CASE("dropout zeroes half of the channels and half of the hidden units, independently", "[images]") {
  const TemporaryFolder folder;
  const NetworkWorkload workload(std::make_unique<PlaneData>(drawn_images(folder, 20, 1)), mnist_settings);
  auto compute = test_compute<float>();
  const auto model = workload.build(compute, 1, 0);
  model->tensors().initialize(1);
  const auto gradient = [&](std::size_t tensor, std::size_t at) {
    return model->tensors().gradient(tensor)[at];
  };
  int channels = 0, units = 0, units_alone = 0;
  for (std::uint64_t sample = 0; sample < 20; ++sample) {
    model->load_samples(sample, 1);
    model->gradients(1.0f, [](std::size_t) {});
    for (std::size_t i = 0; i < 20; ++i) {
      const bool channel = gradient(3, i) != 0, unit = gradient(6, i) != 0;  // conv2.bias, fc2.weight
      channels += channel;
      units += unit;
      units_alone += unit && !channel;
    }
  }
  CHECK(channels > 100);  // of 400
  CHECK(channels < 260);
  CHECK(units > 40);  // ReLU zeroes others
  CHECK(units < 260);
  CHECK(units_alone > units / 4);
}

TEST_CASE("the network learns to read synthetic digits that it was not trained on", "[images]") {
  const TemporaryFolder folder;
  const NetworkWorkload workload(std::make_unique<PlaneData>(drawn_images(folder, 1000, 200)),
                                 mnist_settings);
  Job job = Job::join({.device = Device::cpu});
  auto float_compute = test_compute<float>();
  auto bfloat16_compute = test_compute<bfloat16>();
  OptimizerSettings optimizer;
  optimizer.weight_decay = 0;
  const Replica::Settings settings{optimizer, 30, 1};
  const bool rounds = GENERATE(false, true);
  Replica replica = rounds ? Replica(settings, workload, bfloat16_compute, job.host_world())
                           : Replica(settings, workload, float_compute, job.host_world());
  replica.initialize();
  const std::int64_t steps = rounds ? 60 : 120;
  for (std::int64_t step = 0; step < steps; ++step) REQUIRE(replica.step(step, step * 30, 3e-3, {}).finite);
  Validation found = replica.validate_share();
  replica.all_reduce_validation(found);
  CAPTURE(found.loss.value());
  CHECK(found.accuracy.value() >
        (rounds ? 0.25 : 0.5));  // guessing has 0.1; the network has about 0.7 after these few steps
  job.leave();
}
