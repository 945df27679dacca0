// SPDX-License-Identifier: Apache-2.0
// Ranks on the fakes of CUDA and NCCL, and the bits that they are left with.
#pragma once

#include <chrono>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "communicator/control_plane/control_plane_communicator.hpp"
#include "muster/reducer.hpp"
#include "runtime/control_plane/thrown_errors.hpp"
#include "runtime/fakes/on_fakes.hpp"
#include "temporary_folder.hpp"

using namespace muster;
using namespace std::chrono_literals;

inline bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() &&
         (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0);
}

// Ranks that are threads, each with a fake GPU of its own and a host communicator.
using OnBoth = std::function<void(int rank, const Communicator& on_gpu, Communicator on_host)>;
// `lost`: a rank whose connections are aborted when its program ends. `check_errors` checks the errors that
// the ranks threw. `nccl`: FAKE_NCCL.
inline void run_on_gpus(int ranks, const OnBoth& program, int lost = -1,
                        const std::function<void(const ThrownErrors&)>& check_errors = check_no_errors,
                        const char* nccl = "") {
  TemporaryFolder const folder;
  setenv("FAKE_NCCL_FOLDER", folder.path().c_str(), 1);
  {
    Fakes const fakes("", nccl);
    ControlPlaneFixture fixture(ranks);
    check_errors(fixture.run_on_all([&](int rank, control::ControlPlane& plane) {
      auto const context = make_connected_context(fixture, rank, 20s);
      auto const gpu = detail::open_gpu("", 0, "rank");
      Communicator const on_gpu(gpu->world(detail::CommunicatorGroup(context, "world"), Deadline(20s)));
      Communicator const on_host(
          std::make_shared<detail::ControlPlaneCommunicator>(detail::CommunicatorGroup(context, "host")));
      program(rank, on_gpu, on_host);
      if (rank == lost) plane.abort_connections();
    }));
  }
  unsetenv("FAKE_NCCL_FOLDER");
}
