// SPDX-License-Identifier: Apache-2.0
// Finding a rank's GPU and loading its libraries, and the errors of both, on fakes of CUDA and NCCL
// (fake_cuda.cpp, fake_nccl.cpp).
#include <cstdlib>

#include "communicator/nccl/gpu.hpp"
#include "cuda/cuda_device.hpp"
#include "runtime/fakes/fakes.hpp"

using namespace muster;

TEST_CASE("PCI addresses compare equal whatever their spelling") {
  using detail::canonical_pci;
  CHECK(canonical_pci("00000000:3B:00.0") == "0000:3b:00.0");
  CHECK(canonical_pci("3b:00.0") == "0000:3b:00.0");
  CHECK(canonical_pci("10001:3b:00.0") == "10001:3b:00.0");
  CHECK(canonical_pci("MIG-ABC") == "mig-abc");
}

TEST_CASE("a placed GPU is found by PCI address or UUID") {
  Fakes const fakes;
  auto const gpu = detail::open_gpu("00000000:3B:00.0", 0, "rank 0 (host a)");
  CHECK(gpu->pci_address() == "0000:3b:00.0");
  CHECK(gpu->uuid() == "GPU-10111213-1415-1617-1819-1a1b1c1d1e1f");
  CHECK(gpu->nccl_version() == "2.28.9");
  CHECK_NOTHROW(detail::open_gpu("MIG-10111213-1415-1617-1819-1a1b1c1d1e1f", 0, "rank 0"));
  CHECK_NOTHROW(detail::open_gpu("", 0, "rank 0"));
}

TEST_CASE("when a GPU does not answer, the error at the deadline names a remedy") {
  Fakes const fakes("hang");
  auto const error = catch_error([] {
    detail::open_gpu("0000:3b:00.0", 0, "rank 2 (host a, GPU 0000:3b:00.0)",
                     Deadline(std::chrono::milliseconds(50)));
  });
  CHECK(error.code() == ErrorCode::device);
  CHECK(has(error.what(),
            "rank 2 (host a, GPU 0000:3b:00.0): its GPU was placed but cannot be used: it did not answer "
            "within 50 ms: "
            "see nvidia-smi and dmesg there"));
}

TEST_CASE("when CUDA cannot use a placed GPU, the error has the GPU, the rank, CUDA's reason and a remedy") {
  auto const open = [] { detail::open_gpu("0000:3b:00.0", 0, "rank 2 (host a, GPU 0000:3b:00.0)"); };
  {
    Fakes const fakes("no_device");
    auto const error = catch_error(open);
    CHECK(error.code() == ErrorCode::device);
    CHECK(has(error.what(), "rank 2 (host a, GPU 0000:3b:00.0)"));
    CHECK(has(error.what(), "no CUDA-capable device is detected"));
    CHECK(has(error.what(), "--device=cpu"));
  }
  {
    Fakes const fakes("none_visible");
    CHECK(has(catch_error(open).what(), "CUDA shows no GPU"));
  }
  {
    Fakes const fakes;
    auto const error = catch_error([] { detail::open_gpu("0000:99:00.0", 0, "rank 2"); });
    CHECK(has(error.what(), "CUDA shows only 0000:3b:00.0"));
  }
  {
    Fakes const fakes;
    setenv("MUSTER_CUDA_LIBRARY", "/nowhere/libcuda.so.1", 1);
    auto const error = catch_error(open);
    CHECK(error.code() == ErrorCode::device);
    CHECK(has(error.what(), "/nowhere/libcuda.so.1"));
    CHECK(has(error.what(), "is the NVIDIA driver installed"));
  }
  {
    Fakes const fakes("", "old");
    CHECK(has(catch_error(open).what(), "2.19.3; 2.23 or later is needed"));
  }
  {
    Fakes const fakes;
    setenv("MUSTER_NCCL_LIBRARY", FAKE_CUDA_FILE, 1);  // a library, but not NCCL
    CHECK(has(catch_error(open).what(), "it has no nccl"));
    setenv("MUSTER_NCCL_LIBRARY", "/nowhere/libnccl.so.2", 1);
    CHECK(has(catch_error(open).what(), "is NCCL installed on this node?"));
  }
}
