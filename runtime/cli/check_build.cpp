// SPDX-License-Identifier: Apache-2.0
#include "check_build.hpp"

#include <fmt/format.h>

#include <iostream>
#include <string_view>

#include "build_parts.hpp"
#include "muster/version.hpp"
#include "runtime_versions.hpp"

namespace muster::cli {

namespace {

struct Part {
  std::string_view name;
  bool present;
  std::string_view version;
  std::string_view use;
  std::string (*found)();
};

// CMake writes build_parts.hpp from the results of dependencies.cmake.
constexpr Part parts[] = {
    {"Slurm headers", built_with_slurm, slurm_version, "the plugin; it loads into this Slurm release only",
     found::slurm},
    {"hwloc", built_with_hwloc, hwloc_version, "muster plan --topology", found::hwloc},
    {"PMIx", built_with_pmix, pmix_version, "join under srun --mpi=pmix and mpirun", found::pmix},
    {"Open MPI", built_with_ompi, ompi_version, "collectives on host memory", found::open_mpi},
    {"oneDNN", built_with_onednn, onednn_version, "the trainer on the CPU", nullptr},
    {"CUDA", built_with_cuda, cuda_version, "GPU memory", found::cuda},
    {"NCCL", built_with_cuda, nccl_version, "collectives on GPU memory", found::nccl},
    {"CUDA kernels", built_with_kernels, cuda_version,
     "the reducer's bfloat16 and deterministic modes on GPU memory; made by nvcc", nullptr},
};

void run() {
  std::cout << fmt::format("muster {} ({} {}, {})\n", muster::version, compiler, compiler_version,
                           build_type);
  std::cout << fmt::format("  {:<14} {:<4} {:<12} {:<12} {}\n", "", "", "built with", "found here", "for");
  for (const auto& part : parts) {
    std::string const found = part.found != nullptr ? part.found() : "";
    std::cout << fmt::format("  {:<14} {:<4} {:<12} {:<12} {}\n", part.name, part.present ? "yes" : "no",
                             part.present && !part.version.empty() ? part.version : "-",
                             found.empty() ? "-" : found, part.use);
  }
}

}  // namespace

void add_check_build(CLI::App& app) {
  auto* check = app.add_subcommand(
      "check-build", "Show what this build was made with and finds here: Slurm, PMIx, MPI, CUDA, …");
  check->callback([] { run(); });
}

}  // namespace muster::cli
