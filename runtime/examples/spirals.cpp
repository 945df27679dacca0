// SPDX-License-Identifier: Apache-2.0
// A model of one's own on libmuster: a network with one hidden layer learns on which of three spirals a point
// lies. The program computes the gradients itself; libmuster distributes the samples and adds the gradients.
// Usage: spirals CHECKPOINT [EPOCHS]. A run continues from the checkpoint, also on another number of ranks.
#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <muster/muster.hpp>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

constexpr int hidden = 32, spirals = 3;
constexpr std::uint64_t samples = 3000, batch_samples = 100;
constexpr float learning_rate = 0.5f;
// Parameters in forward order, in one block: weights and biases of the two layers.
const std::vector<std::size_t> sizes{2 * hidden, hidden, hidden* spirals, spirals};
constexpr int parameters = 2 * hidden + hidden + hidden * spirals + spirals;

struct Network {
  std::array<float, parameters> values;
  std::array<float, hidden> activations{};
  std::array<float, spirals> probabilities{};

  Network() {  // any start with both signs does
    for (int i = 0; i < parameters; ++i) values[i] = 0.5f * std::sin(7.0f * static_cast<float>(i + 1));
  }
  const float* weight1() const { return values.data(); }
  const float* bias1() const { return weight1() + 2 * hidden; }
  const float* weight2() const { return bias1() + hidden; }
  const float* bias2() const { return weight2() + hidden * spirals; }

  void forward(float x, float y) {
    for (int h = 0; h < hidden; ++h)
      activations[h] = std::tanh(weight1()[2 * h] * x + weight1()[2 * h + 1] * y + bias1()[h]);
    float sum = 0;
    for (int s = 0; s < spirals; ++s) {
      float logit = bias2()[s];
      for (int h = 0; h < hidden; ++h) logit += weight2()[s * hidden + h] * activations[h];
      sum += probabilities[s] = std::exp(logit);
    }
    for (auto& probability : probabilities) probability /= sum;
  }
};

struct Sample {  // a function of its number, so every rank can make each of them
  float x, y;
  int spiral;
  explicit Sample(std::uint64_t number) : spiral(static_cast<int>(number % spirals)) {
    float const radius = 0.1f + 0.9f * static_cast<float>(number) / samples;
    float const angle = 4 * radius + 2.0943951f * static_cast<float>(spiral);  // 2 pi / 3
    x = radius * std::cos(angle), y = radius * std::sin(angle);
  }
};

// Adds the gradients of this rank's part of the batch, and starts their reduction from the last layer on.
void backward(Network& network, const muster::Sampler::Batch& batch, muster::Reducer& reducer,
              muster::Average& loss) {
  std::array<std::span<float>, 4> gradients;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    gradients[i] = reducer.gradient(i);
    std::fill(gradients[i].begin(), gradients[i].end(), 0.0f);
  }
  for (auto const number : batch.samples) {
    Sample const sample(number);
    network.forward(sample.x, sample.y);
    loss.add(-std::log(network.probabilities[sample.spiral]));
    std::array<float, hidden> back{};  // the gradient of each activation
    for (int s = 0; s < spirals; ++s) {
      float const error = (network.probabilities[s] - (s == sample.spiral ? 1 : 0)) / batch.global;
      gradients[3][s] += error;
      for (int h = 0; h < hidden; ++h) {
        gradients[2][s * hidden + h] += error * network.activations[h];
        back[h] += error * network.weight2()[s * hidden + h];
      }
    }
    for (int h = 0; h < hidden; ++h) {
      float const error = back[h] * (1 - network.activations[h] * network.activations[h]);
      gradients[0][2 * h] += error * sample.x, gradients[0][2 * h + 1] += error * sample.y;
      gradients[1][h] += error;
    }
  }
  for (std::size_t i = sizes.size(); i-- > 0;) reducer.ready(i);  // in a larger model: layer by layer
}

int main(int argc, char** argv) try {
  if (argc < 2) throw std::runtime_error("usage: spirals CHECKPOINT [EPOCHS]");
  std::string const path = argv[1];
  std::uint64_t const epochs = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 100;
  auto job = muster::Job::join({.device = muster::Device::cpu});
  auto world = job.world();

  Network network;
  muster::SamplerPosition position;
  job.on_rank_0("load", [&] {
    std::ifstream file(path, std::ios::binary);
    if (file && (!file.read(reinterpret_cast<char*>(&position), sizeof position) ||
                 !file.read(reinterpret_cast<char*>(network.values.data()), sizeof network.values)))
      throw std::runtime_error(path + " is not a checkpoint of this program");
  });
  broadcast_state(world, muster::State().add(std::span<float>(network.values)).add(position));

  muster::Sampler sampler(samples, job.rank(), job.size(), position);
  muster::Reducer reducer(world, sizes, {.reduction = muster::Reduction::sum});
  std::array<muster::Average, 1> loss;
  while (sampler.completed_epochs() < epochs) {
    auto const batch = sampler.next(batch_samples);
    backward(network, batch, reducer, loss[0]);
    reducer.finish();
    for (std::size_t i = 0, p = 0; i < sizes.size(); ++i)
      for (float const gradient : reducer.gradient(i)) network.values[p++] -= learning_rate * gradient;
    if (sampler.position().offset < samples) continue;  // the epoch goes on
    average_over_ranks(world, loss);
    if (job.rank() == 0)
      std::printf("epoch %d: loss %.4f\n", static_cast<int>(sampler.completed_epochs()), loss[0].value());
    loss[0] = {};
  }
  job.on_rank_0("save", [&] {
    std::ofstream file(path + ".new", std::ios::binary);
    position = sampler.position();
    file.write(reinterpret_cast<const char*>(&position), sizeof position);
    file.write(reinterpret_cast<const char*>(network.values.data()), sizeof network.values);
    if (!file.flush()) throw std::runtime_error("cannot write " + path + ".new");
    std::filesystem::rename(path + ".new", path);
  });
  job.leave();
} catch (const muster::Error& error) {
  if (!error.reported_elsewhere()) std::fprintf(stderr, "spirals: %s\n", error.what());
  return error.exit_code();
} catch (const std::exception& error) {
  std::fprintf(stderr, "spirals: %s\n", error.what());
  return 1;
}
