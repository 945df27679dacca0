// SPDX-License-Identifier: Apache-2.0
// Pipelines on up to eight ranks. In the deterministic mode they have the bits of data parallelism on one
// rank, for every schedule and any number of stages, pipelines and micro-batches; a run goes on from a
// checkpoint of either strategy with the same bits. Otherwise they train the same up to rounding.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <iterator>
#include <map>
#include <string>
#include <vector>

#include "full_state.hpp"
#include "make_data.hpp"
#include "strategies/make_strategy.hpp"
#include "temporary_folder.hpp"
#include "trainer/models/model_fixture.hpp"
#include "training/collective_errors.hpp"

using namespace muster;
using pipeline::ScheduleKind;

namespace {

constexpr int batch = 8, steps = 4;
constexpr double rate = 1e-2;

int failures = 0;
void require(bool fine, const Communicator& world, const std::string& what) {
  if (fine) return;
  ++failures;
  std::fprintf(stderr, "FAILED on rank %d of %d: %s\n", world.rank(), world.size(), what.c_str());
}

/// What a course leaves, on rank 0.
struct Result {
  FullState saved, end;
  std::vector<double> losses, norms;
  Validation validation;
  bool same_bits(const Result& other) const {
    return end == other.end && losses == other.losses && norms == other.norms &&
           validation.loss.sum == other.validation.loss.sum &&
           validation.loss.weight == other.validation.loss.weight &&
           validation.accuracy.sum == other.validation.accuracy.sum;
  }
};

StrategySettings training(int chunk) {
  OptimizerSettings optimizer;
  optimizer.clip = 0.5;
  return StrategySettings({optimizer, batch, 3, chunk});
}

StrategySettings pipelined(StrategySettings of, ScheduleKind schedule, int stages, int micro_batches = 0) {
  of.pipeline = {schedule, stages, micro_batches, schedule == ScheduleKind::interleaved_1f1b ? 2 : 1};
  return of;
}

/// Trains from the beginning, or from `from`'s state after two steps. The state after two steps is saved.
template <typename Real = float>
Result train(Communicator world, const Workload& workload, StrategySettings settings,
             const Result* from = nullptr) {
  settings.replica.real_bytes = sizeof(Real);
  check_strategy(settings, workload, world.size(), false);
  auto compute = test_compute<Real>();
  const auto strategy = make_strategy(settings, workload, compute, world, world);
  if (auto* of = dynamic_cast<Pipeline*>(strategy.get())) {
    std::uint64_t bytes = 0;
    for (const MemorySegment& segment : estimate_memory(workload, settings, world.rank(), world.size()))
      if (segment.name != "copy for checkpoints" && segment.name != "sums of chunks") bytes += segment.bytes;
    require(of->bytes() == bytes, world, "the memory is as estimated");
  }
  Result result;
  const auto save = [&](FullState& state) {
    require(CollectiveErrors(world).differing_ranks(strategy->parameter_hash()).empty(), world,
            "all ranks have the same hash");
    if (world.rank() == 0) state.allocate(*strategy);
    strategy->gather_state(state.tensors());
  };
  if (from != nullptr) {
    result.saved = from->saved;
    strategy->scatter_state(result.saved.tensors());
  } else {
    if (world.rank() == 0) strategy->initialize();
    strategy->broadcast();
  }
  for (int step = from != nullptr ? 2 : 0; step < steps; ++step) {
    if (step == 2) save(result.saved);
    strategy->begin_step(step, step * batch, rate, {});
    const StepResult done = strategy->end_step();
    require(done.finite && !done.any_stop && !done.any_failed, world, "a step is finite");
    result.losses.push_back(done.loss);
    result.norms.push_back(done.gradient_norm);
  }
  save(result.end);
  result.validation = strategy->validate_share();
  strategy->all_reduce_validation(result.validation);
  return result;
}

struct Shape {
  ScheduleKind schedule;
  int stages, replicas, chunk;
  bool resumes = false;      ///< go on from the other strategy's checkpoint, too
  std::vector<int> hosts{};  ///< as if the ranks were on these
};

std::string text(const Shape& shape) {
  return std::string(to_string(shape.schedule)) + ", " + std::to_string(shape.stages) + " stages, " +
         std::to_string(shape.replicas) + " pipelines, chunks of " + std::to_string(shape.chunk);
}

/// Each shape on as many ranks as it needs, beside one process with the same chunks.
template <typename Real>
void check_shapes(const Communicator& world, const Workload& workload, const std::vector<Shape>& shapes) {
  const Communicator self = world.split(world.rank());
  std::map<int, Result> expected;
  for (const Shape& shape : shapes) {
    const int ranks = shape.stages * shape.replicas;
    const Communicator some = world.split(world.rank() < ranks ? 0 : 1);
    if (world.rank() >= ranks) continue;
    StrategySettings settings = pipelined(training(shape.chunk), shape.schedule, shape.stages);
    settings.pipeline->hosts = shape.hosts;
    settings.replica.shard_optimizer = shape.chunk == 1;
    if (!expected.contains(shape.chunk))
      expected[shape.chunk] = train<Real>(self, workload, training(shape.chunk));
    const Result& whole = expected[shape.chunk];
    const std::string what = workload.model_line() + ": " + text(shape);
    const Result found = train<Real>(some, workload, settings);
    require(some.rank() != 0 || found.same_bits(whole), some, what + ": the bits of one process");
    if (!shape.resumes) continue;
    const Result resumed = train<Real>(some, workload, settings, &whole);
    require(some.rank() != 0 || resumed.end == whole.end, some, what + ": resumes data parallelism");
    if (some.rank() != 0) continue;
    require(train<Real>(self, workload, training(shape.chunk), &found).end == whole.end, some,
            what + ": data parallelism resumes it");
  }
}

void test_same_bits(const Communicator& world, const Workload& workload) {
  check_shapes<float>(world, workload,
                      {{ScheduleKind::gpipe, 2, 1, 1},
                       {ScheduleKind::gpipe, 4, 2, 2},
                       {ScheduleKind::one_f_one_b, 2, 1, 2},
                       {ScheduleKind::one_f_one_b, 2, 2, 1},
                       {ScheduleKind::one_f_one_b, 4, 1, 1},
                       {ScheduleKind::one_f_one_b, 4, 2, 1, true, {0, 1, 0, 1, 1, 0, 1, 0}},
                       {ScheduleKind::one_f_one_b, 2, 2, 2},
                       {ScheduleKind::interleaved_1f1b, 2, 1, 1},
                       {ScheduleKind::gpipe, 4, 1, 2, true},
                       {ScheduleKind::interleaved_1f1b, 2, 2, 1, true, {0, 1, 1, 0}},
                       {ScheduleKind::zero_bubble_h1, 2, 2, 1, false, {0, 0, 1, 0}},
                       {ScheduleKind::zero_bubble_h1, 4, 1, 1, true},
                       {ScheduleKind::zero_bubble_h1, 4, 1, 2}});
}

/// Networks on images, whose statistics of batches are in the checkpoints, too.
void test_images(const Communicator& world, Options options) {
  const auto read = [&](const char* model) {
    options.model_name = model;
    return read_workload(options);
  };
  const auto resnet = read("resnet20"), mobilenet = read("mobilenet-v1");
  check_shapes<float>(world, *resnet,
                      {{ScheduleKind::gpipe, 3, 1, 2},
                       {ScheduleKind::one_f_one_b, 2, 2, 2, true},
                       {ScheduleKind::one_f_one_b, 2, 2, 1},
                       {ScheduleKind::interleaved_1f1b, 2, 1, 2, true},
                       {ScheduleKind::zero_bubble_h1, 2, 2, 2, true},
                       {ScheduleKind::zero_bubble_h1, 3, 1, 1}});
  check_shapes<bfloat16>(world, *resnet,
                         {{ScheduleKind::one_f_one_b, 3, 1, 2},
                          {ScheduleKind::interleaved_1f1b, 2, 1, 2},
                          {ScheduleKind::zero_bubble_h1, 4, 1, 2}});
  check_shapes<float>(world, *mobilenet,
                      {{ScheduleKind::one_f_one_b, 3, 1, 2}, {ScheduleKind::zero_bubble_h1, 4, 1, 1}});
}

/// Batch normalization over two pipelines. With one micro-batch each, its statistics are those of one
/// process; with more, every schedule has the bits of gpipe, since a sum over two ranks commutes.
void test_sync_batch_norm(const Communicator& world, const Workload& workload) {
  const Communicator self = world.split(world.rank()), four = world.split(world.rank() / 4);
  if (world.rank() >= 4) return;
  const auto run = [&](ScheduleKind kind, int micro_batches, bool sync) {
    StrategySettings settings = pipelined(training(0), kind, 2, micro_batches);
    settings.replica.sync_batch_norm = sync;
    return train(four, workload, settings);
  };
  const Result whole = train(self, workload, training(0)), together = run(ScheduleKind::gpipe, 1, true),
               apart = run(ScheduleKind::gpipe, 1, false);
  const auto difference = [&](const Result& found) {
    return std::abs(found.losses.front() - whole.losses.front()) / whole.losses.front();
  };
  const auto of_norms = [&](const Result& found) {
    return std::abs(found.norms.front() - whole.norms.front()) / whole.norms.front();
  };
  if (four.rank() == 0) {
    require(difference(together) < 1e-4 && of_norms(together) < 1e-3, four, "statistics of the whole batch");
    require(difference(apart) > 1e-3 && of_norms(apart) > 1e-2, four, "the comparison shows something");
  }
  const Result gpipe = run(ScheduleKind::gpipe, 4, true);
  for (const ScheduleKind kind :
       {ScheduleKind::one_f_one_b, ScheduleKind::interleaved_1f1b, ScheduleKind::zero_bubble_h1}) {
    const Result found = run(kind, 4, true);
    require(four.rank() != 0 || found.same_bits(gpipe), four,
            std::string(to_string(kind)) + " over two pipelines: the bits of gpipe");
  }
}

void test_rounding(const Communicator& world, const Workload& workload) {
  const Communicator self = world.split(world.rank()), four = world.split(world.rank() / 4);
  if (world.rank() >= 4) return;
  const Result whole = train(self, workload, training(0));
  for (const ScheduleKind kind : {ScheduleKind::gpipe, ScheduleKind::one_f_one_b,
                                  ScheduleKind::interleaved_1f1b, ScheduleKind::zero_bubble_h1}) {
    const Result found = train(four, workload, pipelined(training(0), kind, 2, 2));
    if (four.rank() != 0) continue;
    for (std::size_t i = 0; i < found.losses.size(); ++i) {
      require(std::abs(found.losses[i] - whole.losses[i]) < 1e-5, four, "losses up to rounding");
      require(std::abs(found.norms[i] - whole.norms[i]) < 1e-4 * whole.norms[i], four,
              "norms up to rounding");
    }
    require(std::abs(found.validation.loss.value() - whole.validation.loss.value()) < 1e-5, four,
            "validation up to rounding");
  }
}

/// A value that is not finite on one stage leaves the update out on all; flags of one rank reach all.
void test_flags(const Communicator& world, const Workload& workload) {
  const Communicator four = world.split(world.rank() / 4);
  if (world.rank() >= 4) return;
  auto compute = test_compute<float>();
  const auto strategy =
      make_strategy(pipelined(training(2), ScheduleKind::one_f_one_b, 2), workload, compute, four, four);
  strategy->broadcast();
  FullState state;
  if (four.rank() == 0) state.allocate(*strategy);
  const auto step = [&](const StepFlags& flags) {
    strategy->begin_step(0, 0, rate, flags);
    require(strategy->in_flight() == 1, four, "a step is in flight");
    return strategy->end_step();
  };
  StepResult result = step({four.rank() == 2, false});
  require(result.finite && result.any_stop && !result.any_failed, four, "one rank's signal reaches all");
  require(four.rank() != 0 || (*result.idle_share > 0 && *result.idle_share < 1), four, "ranks wait");
  strategy->gather_state(state.tensors());
  if (four.rank() == 0) state.parameters[strategy->table().tensors.back().offset] = INFINITY;
  strategy->scatter_state(state.tensors());
  const std::uint64_t before = strategy->parameter_hash();
  result = step({false, four.rank() == 3});
  require(!result.finite && !result.any_stop && result.any_failed, four, "all ranks leave the update out");
  require(strategy->parameter_hash() == before, four, "and keep their parameters");
  require(four.rank() % 2 == 0 || result.non_finite_samples.count() == batch / 2, four,
          "the last stage names samples");
  const std::string picture = strategy->draw_last_step();
  require((four.rank() == 0) == (picture.find("<title>1B1: ") != std::string::npos), four,
          "rank 0 draws the step");
}

/// All ranks get the times of each place, of its slowest rank.
void test_gathered_times(Communicator world) {
  const double rank = world.rank();
  const bool is_first = world.rank() < 2, is_last = world.rank() >= 6;
  const pipeline::LayerTimes own{is_first ? 10 + rank : 0, 7 - rank, is_last ? 20 - rank : 0};
  const std::vector<pipeline::LayerTimes> expected{{11, 7, 0}, {0, 5, 0}, {0, 3, 0}, {0, 1, 14}};
  require(pipeline::gather_layer_times(own, world.rank() / 2, 4, world) == expected, world,
          "the slowest rank of a place counts");
}

}  // namespace

int main() {
  const TemporaryFolder folder;
  std::string words;
  for (int i = 0; i < 20; ++i) words += "the quick brown fox jumps over the lazy dog; ";
  write_file(folder / "text", words);
  Options options;
  options.data = (folder / "text").string();
  options.model = {4, 2, 16, 8, 128};
  const auto gpt = read_workload(options);
  options.recompute = true;
  options.model.llama = models::LlamaConfig{1, 24, 10000, 1e-5, false};
  const auto llama = read_workload(options);
  options.model.llama->tied_output = true;
  const auto tied = read_workload(options);
  options.recompute = false;
  options.model.llama->tied_output = false;
  const auto kept = read_workload(options);
  Options images;
  images.data = (folder / "images").string();
  images.image_size = 16;
  images.width_multiplier = 0.25;
  images.augment = true;
  const char* const arguments[] = {"make-data", "cifar", "--output",   images.data.c_str(),
                                   "--train",   "40",    "--held-out", "70"};
  make_data(static_cast<int>(std::size(arguments)), arguments);
  Job job = Job::join({.device = Device::cpu});
  if (job.size() != 8) return 2;
  const Communicator world = job.host_world();
  test_same_bits(world, *gpt);
  check_shapes<float>(world, *llama, {{ScheduleKind::one_f_one_b, 2, 2, 2}});
  check_shapes<float>(world, *tied, {{ScheduleKind::one_f_one_b, 2, 2, 2}});
  check_shapes<float>(world, *kept, {{ScheduleKind::zero_bubble_h1, 2, 2, 2}});
  check_shapes<bfloat16>(world, *gpt,
                         {{ScheduleKind::one_f_one_b, 2, 2, 2}, {ScheduleKind::zero_bubble_h1, 2, 2, 2}});
  test_images(world, images);
  images.model_name = "resnet20";
  test_sync_batch_norm(world, *read_workload(images));
  test_rounding(world, *gpt);
  test_flags(world, *gpt);
  test_gathered_times(world);
  job.leave();
  return failures == 0 ? 0 : 1;
}
