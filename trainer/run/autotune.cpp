// SPDX-License-Identifier: Apache-2.0
#include "run/autotune.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <chrono>
#include <filesystem>
#include <vector>

#include "compute/autotuner.hpp"
#include "files/output_file.hpp"
#include "models/named_network.hpp"
#include "text/plural.hpp"

namespace muster {
namespace {

/// Chooses on rank 0.
void choose(const Options& options, RunParts& parts, bool resumed, compute::Autotuner& tuner) {
  std::string& results = parts.state.autotune;
  const std::string why = results.empty() ? "the checkpoint has none" : tuner.load(results);
  const auto from = std::chrono::steady_clock::now();
  tuner.set_timing(true);
  parts.strategy->rehearse(parts.state.samples);
  tuner.set_timing(false);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - from;
  results = tuner.results();
  const std::filesystem::path path = std::filesystem::path(options.output) / "autotune.json";
  OutputFile file(path);
  file.write(results);
  file.commit();
  if (tuner.timed() == 0) return;
  const std::string products = plural(tuner.timed(), "matrix product");
  if (resumed)
    fmt::print("note: the algorithms of {} were chosen anew ({}): later steps have other bits\n", products,
               why.empty() ? "the checkpoint has no algorithm for them that runs here" : why);
  fmt::print("timed the algorithms of {} in {:.2f} s: {}\n", products, took.count(), path.string());
}

void broadcast(std::string& text, Communicator& world) {
  std::uint64_t size[] = {text.size()};
  world.broadcast(std::span<std::uint64_t>(size), 0);
  text.resize(size[0]);
  world.broadcast(std::span(reinterpret_cast<std::uint8_t*>(text.data()), text.size()), 0);
}

/// Null when this run has no algorithms to choose.
compute::Autotuner* find_tuner(const Options& options, const RunParts& parts) {
  // cuDNN chooses its own algorithms, and networks on images have no other products. Rank 0 is a server among
  // parameter servers, and has no GPU to time them on.
  const bool tunes = options.autotune && !options.deterministic &&
                     !models::is_image_network(options.model_name) && options.strategy != "parameter-server";
  return tunes ? parts.compute->autotuner() : nullptr;
}

}  // namespace

void share_algorithms(const Options& options, RunParts& parts, Communicator& world,
                      CollectiveErrors& errors) {
  compute::Autotuner* const tuner = find_tuner(options, parts);
  if (tuner == nullptr) return;
  std::string& results = parts.state.autotune;
  broadcast(results, world);
  if (results.empty()) return;
  std::string refusal;
  errors.run_on_all([&] {
    if (world.rank() != 0) refusal = tuner->load(results);
  });
  const std::vector<int> others = errors.differing_ranks(refusal.empty() ? 1 : 0);
  if (world.rank() == 0 && !others.empty())
    fmt::print(
        "note: rank {} has another GPU model or cuBLASLt than rank 0: cuBLASLt's first algorithms are "
        "used there\n",
        fmt::join(others, ", "));
}

void autotune(const Options& options, RunParts& parts, bool resumed, Communicator& world,
              CollectiveErrors& errors) {
  std::string& results = parts.state.autotune;
  const bool finished = parts.state.step >= options.steps;
  if (finished) return;
  compute::Autotuner* const tuner = find_tuner(options, parts);
  if (tuner == nullptr) {
    if (!results.empty())
      fmt::print(
          "note: the checkpoint's algorithms of matrix products are not used: later steps have other "
          "bits\n");
    results.clear();
    return;
  }
  errors.run_on_rank0([&] { choose(options, parts, resumed, *tuner); });
  share_algorithms(options, parts, world, errors);
}

}  // namespace muster
