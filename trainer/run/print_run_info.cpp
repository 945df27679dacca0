// SPDX-License-Identifier: Apache-2.0
#include "run/print_run_info.hpp"

#include <fmt/format.h>

#include <cstdint>
#include <cstdio>
#include <string>

#include "compute/cpu/dnnl_matmul.hpp"
#include "config/settings.hpp"
#include "machine/host_memory.hpp"
#include "report/format_bytes.hpp"
#include "run/membership_change.hpp"
#include "run/open_gpu.hpp"
#include "text/plural.hpp"

namespace muster {
namespace {

/// `limit` and `host_limit` say how much there is.
void print_memory(const MemorySegments& segments, int rank, const std::string& limit,
                  const std::string& host_limit) {
  std::uint64_t activations = 0;
  std::string text, offloaded;
  for (const MemorySegment& segment : segments) {
    if (segment.is_activation)
      activations += segment.bytes;
    else
      (segment.is_offloaded ? offloaded : text) +=
          fmt::format("{} {}, ", segment.name, format_bytes(segment.bytes));
  }
  text += fmt::format("activations {}", format_bytes(activations));
  const std::uint64_t all = total_bytes(segments), on_host = offloaded_bytes(segments);
  if (all > on_host)
    fmt::print("memory {} on rank {} ({}){}\n", format_bytes(all - on_host), rank, text, limit);
  if (on_host == 0) return;
  offloaded.resize(offloaded.size() - 2);
  fmt::print("host memory {} for rank {} ({}){}\n", format_bytes(on_host), rank, offloaded, host_limit);
}

void print_memory_estimate(const Options& options, const RunParts& parts) {
  const FreeMemory free = free_memory();
  print_memory(parts.facts.memory, 0,
               fmt::format("; {} {}", format_bytes(parts.facts.free_bytes), parts.memory_limit),
               fmt::format("; {} {}", format_bytes(free.bytes), free.where));
  print_memory(parts.worker_memory, options.servers, "", "");
}

}  // namespace

void print_run_info(const Options& options, const Job& job, const ActiveRanks& ranks, const RunParts& parts) {
  const Summary& facts = parts.facts;
  fmt::print("{}: {} parameters\n", facts.model, facts.parameters);
  fmt::print("on {} on {}, each {}{} in {}; {} {}s a step\n", plural(facts.world_size, "rank"),
             plural(facts.hosts, "host"), only_serves(job) ? "worker " : "", facts.device, facts.dtype,
             facts.tokens_per_step, facts.unit);
  if (ranks.has_spares())
    fmt::print("spares, which replace lost ranks: {}\n", describe_ranks(ranks.spares()));
  if (!computes_on_gpus(job) && facts.dtype == "bf16" && !compute::cpu::DnnlMatmul::has_fast_bfloat16()) {
    fmt::print(
        "warning: --dtype=bf16 is slower here than fp32: it pays with oneDNN on processors with AVX-512 "
        "BF16\n");
  }
  if (facts.peak_flops > 0) {
    fmt::print("peak {} measured in {} matrix products; the model needs {:.4g} MFLOP a{} {}\n",
               format_flops(facts.peak_flops), facts.dtype, facts.flops_per_token / 1e6,
               facts.unit == "image" ? "n" : "", facts.unit);
  }
  if (options.strategy == "local-sgd") {
    fmt::print("local-sgd: parameters averaged every {}{}{}\n", plural(options.sync_every, "step"),
               options.worker_ranks > 1
                   ? fmt::format(" over {} workers of {} ranks each", facts.world_size / options.worker_ranks,
                                 options.worker_ranks)
                   : "",
               options.outer_optimizer == "nesterov"
                   ? fmt::format(", Nesterov's outer step: learning rate {}, momentum {}",
                                 options.outer_learning_rate, options.outer_momentum)
                   : "");
  }
  if (options.strategy == "central-storage")
    fmt::print("central-storage: the ranks of a host share its copy of parameters and moments{}\n",
               job.on_gpu()
                   ? fmt::format(", which {} of each rank update{}", plural(parts.state.threads, "thread"),
                                 parts.state.threads == 1 ? "s" : "")
                   : "");
  if (options.strategy == "parameter-server") {
    fmt::print("parameter-server: {}, {}, staleness {}\n", plural(options.servers, "server"),
               plural(facts.world_size - options.servers, "worker"), options.staleness);
  }
  fmt::print("{}", parts.strategy_text);
  print_memory_estimate(options, parts);
  fmt::print("data {}, {}\n", facts.data, parts.workload->data_line());
  const Workload& workload = *parts.workload;
  for (const std::string& note :
       setting_warnings(options, {facts.world_size, workload.samples_per_epoch(), workload.held_out(),
                                  workload.predictions_per_sample()}))
    fmt::print("note: {}\n", note);
  if (facts.first_step >= facts.wanted_steps) {
    fmt::print(
        "all {} steps are done already: raise --steps to train on, or pass --resume=off to start anew\n",
        facts.wanted_steps);
  }
  std::fflush(stdout);
}

}  // namespace muster
