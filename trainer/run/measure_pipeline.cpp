// SPDX-License-Identifier: Apache-2.0
#include "run/measure_pipeline.hpp"

#include "compute/cpu/cpu_compute.hpp"
#include "machine/threads.hpp"
#include "strategies/pipeline/layer_times.hpp"
#include "strategies/pipeline/plan.hpp"

namespace muster {
namespace {

template <typename Real>
pipeline::LayerTimes measure_on_cpu(const Workload& workload, const pipeline::MeasuredLayers& measured,
                                    int threads) {
  compute::cpu::CpuCompute<Real> compute({threads, true, nullptr});
  return pipeline::measure_layers(workload, measured, compute);
}

}  // namespace

bool measure_pipeline(const Options& options, Job& job, const Workload& workload,
                      compute::Compute<bfloat16>* gpu, StrategySettings& settings, CollectiveErrors& errors) {
  if (!settings.pipeline || settings.pipeline->balance != pipeline::Balance::time) return false;
  Communicator world = job.host_world();
  const pipeline::Plan plan =
      make_plan(*settings.pipeline, settings.replica, workload, world.rank(), world.size());
  const pipeline::MeasuredLayers measured = layers_to_measure(plan, settings.replica);
  pipeline::LayerTimes own;
  world.barrier();  // so that ranks that share cores measure at the same time
  errors.run_on_all([&] {
    const int threads = choose_threads(options.threads, job.roster(), job.rank());
    own = gpu != nullptr            ? measure_layers(workload, measured, *gpu)
          : options.dtype == "bf16" ? measure_on_cpu<bfloat16>(workload, measured, threads)
                                    : measure_on_cpu<float>(workload, measured, threads);
  });
  settings.pipeline->layer_times = pipeline::gather_layer_times(own, plan.rank, plan.shape.ranks, world);
  return true;
}

}  // namespace muster
